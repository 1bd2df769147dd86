"""What walls say, one pattern a line, in the languages of most of the web: en de fr es it pt nl pl ru zh ja.

Case is ignored. Where walls of one product say the same everywhere, the product's own words stand here.
"""

ERROR_PHRASES = (
    r"(?:(?:http|status|code|error|fehler|erreur) ?)+404",
    r"404 (?:error|fehler|not found|page)",
    r"not found",
    r"(?:oops |sorry )?(?:the |this |your )?(?:requested )?(?:page|file|document|article|content|resource|url|topic)"
    r" (?:(?:was |is |could |can)? ?not (?:be )?found|cannot be found|missing|(?:is )?(?:not|no longer) available"
    r"|(?:does not|doesn['’]t|no longer) exists?)(?: (?:on|at) this (?:server|site))?",
    r"(?:sorry )?we (?:can['’]?t|cannot|could ?n['’]t|could not) (?:seem to )?find (?:that|the|this|your) page",
    r"(?:die |diese )?(?:(?:gesuchte|angeforderte|aufgerufene) )?(?:seite|datei|artikel|inhalt|dokument)"
    r" (?:(?:wurde|konnte) )?(?:leider )?"
    r"(?:nicht (?:gefunden|verfügbar|vorhanden)(?: werden)?|existiert nicht(?: mehr)?)",
    r"(?:la |cette )?(?:page|ressource|article)(?: demandée?)? (?:est )?(?:introuvable|non trouvée?|inexistante"
    r"|n['’](?:existe|est) (?:pas|plus)(?: disponible)?|n['’]a pas été trouvée?)",
    r"(?:la )?p[áa]gina (?:solicitada )?(?:que buscas )?no (?:(?:ha sido |fue )?encontrada|existe|(?:está )?disponible"
    r"|se (?:encuentra|encontró|ha encontrado|pudo encontrar))",
    r"no se (?:encontró|ha encontrado|encuentra) la p[áa]gina",
    r"(?:la )?pagina (?:richiesta |cercata )?(?:non (?:è stata )?(?:trovata|esiste|disponibile)|inesistente)",
    r"(?:a )?p[áa]gina (?:solicitada )?n[ãa]o (?:foi )?(?:encontrada|existe|disponível|localizada)",
    r"(?:de |deze )?pagina (?:is |werd )?(?:niet (?:meer )?(?:gevonden|beschikbaar)|bestaat niet(?: meer)?)",
    r"nie znaleziono (?:strony|pliku)",
    r"(?:ta )?strona (?:nie (?:została )?(?:znaleziona|istnieje)|o podanym adresie nie istnieje)",
    r"(?:эта |такая |запрашиваемая )?(?:страница|документ|файл) (?:не (?:найдена?|существует)|удал[её]на?)",
    r"(?:такой )?страницы не существует",
    r"(?:抱歉)?(?:您?(?:访问|要找|查找|請求|请求)的)?(?:页面|網頁|网页|頁面|文件|内容)(?:不存在|未找到|找不到|没有找到|已被?删除)",
    r"(?:找不到|未找到|没有找到|無法找到)(?:该|此|您要的)?(?:页面|網頁|网页|頁面)",
    r"(?:(?:お探し|ご指定|指定された?|アクセス)の?)?(?:ページ|ファイル|記事)[がは]"
    r"(?:見つかりません(?:でした)?|存在しません|ありません)",
)
ERROR_SENTENCES = (
    r"(?:the|that) page (?:that )?you (?:are|were)(?: looking for| trying to (?:reach|find|access))",
    r"the page you(?:['’]re| have|['’]ve)? (?:requested|looking for)",
    r"the requested (?:url|page|resource)\b.{0,200}(?:not found|could ?n[o'’]t be found|does not exist)",
    r"die (?:von ihnen )?(?:gesuchte|angeforderte|aufgerufene) seite",
    r"la page que vous (?:re)?cherchez",
    r"la p[áa]gina que (?:est[áa]s? )?busca",
    r"la pagina che (?:stai cercando|hai richiesto|cerchi)",
    r"a p[áa]gina que (?:você )?(?:est[áa] )?procura",
    r"de pagina die (?:je|u) (?:zoekt|zocht)",
    r"strona,? której szukasz",
    r"запрашиваем\w+ (?:вами )?страниц",
    r"您(?:要)?(?:访问|查找|找|浏览)的(?:页面|网页|網頁|頁面)",
    r"お探しのページ",
)
CHALLENGE_TITLES = (
    r"attention required!",
    r"pardon our interruption",
    r"robot check",
    r"are you a robot",
    r"access to this page has been denied",
    r"ddos-guard",
    r"checking (?:you are not a bot|your browser)",
    r"making sure you['’]?re not a bot",
    r"you have been blocked",
    r"vercel security checkpoint",
    r"client challenge",
    r"bot verification",
    r"human verification",
    r"security check(?:point)?",
    r"(?:please )?verify(?:ing)? (?:that )?you(?: are|['’]re) (?:a )?human(?: being)?",
    r"sucuri website firewall",
)
CHALLENGE_SENTENCES = (
    r"checking your browser before accessing",
    r"needs to review the security of your connection",
    r"incapsula incident id",
    r"unusual traffic from your computer network",
    r"please enable js and disable any ad ?blocker",
    r"enable javascript and cookies to continue",
    r"access denied.{0,300}reference #\d+\.[0-9a-f]+",
    r"errors\.edgesuite\.net",
    r"complete the security check to access",
    r"press (?:& |and )hold to confirm you are",
    r"enter the characters you see below.{0,200}sorry, we just need to make sure you['’]re not a robot",
)
HUMAN_SENTENCES = (
    r"verify(?:ing)? (?:that )?you are (?:a )?human",
    r"not a robot",
    r"(?:solve|complete) the captcha",
    r"bestätigen sie,? dass sie (?:ein mensch|kein roboter) sind",
    r"vous (?:êtes un humain|n['’]êtes pas un robot)",
    r"no (?:eres|soy|es) un robot",
    r"non sei un robot",
    r"não (?:é|sou) um robô",
    r"geen robot",
    r"nie jeste[śm] robotem",
    r"не робот",
    r"不是机器人",
    r"ロボットではありません",
)
LOGIN_PHRASES = (
    r"(?:please |user |account |member )?(?:log ?[io]n|sign ?[io]n)",
    r"(?:log ?[io]n|sign ?[io]n) (?:required|page|(?:to|with) .{1,40})",
    r"(?:authentication|authorization) required",
    r"anmelde[nr]|anmeldung|einloggen",
    r"connexion|se connecter|identifiez-vous",
    r"iniciar sesión|inicio de sesión",
    r"accedi|accesso",
    r"entrar|iniciar sessão|fazer login",
    r"inloggen|aanmelden",
    r"zaloguj(?: się)?|logowanie",
    r"вход|войти|авторизация",
    r"登录|登錄|登入|用户登录",
    r"ログイン|サインイン",
)
LOGIN_SENTENCES = (
    r"(?:you (?:must|need to|have to)|please) (?:be logged in|log ?in|sign ?in) (?:to|in order to)"
    r" (?:continue|view|access|see|read)",
    r"bitte (?:melden sie sich an|einloggen), um",
    r"veuillez vous (?:connecter|identifier) pour",
    r"(?:debes|debe) iniciar sesión para",
)
LOGIN_ADDRESSES = (
    r"/(?:[\w-]*log-?[io]n|sign-?[io]n|sso|saml2?|oauth2?|openid|adfs|authorize|idp|shibboleth|authwall)(?:[/.?;]|$)",
    r"/(?:anmelden|connexion|users/sign_in|session/new)(?:[/.?;]|$)",
    r"//(?:accounts\.google\.com|login\.[\w.-]+|sso\.[\w.-]+|idp\.[\w.-]+|[\w-]+\.(?:okta|auth0)\.com)[/:]",
)
CONSENT_TITLES = (
    r"before you continue(?: to .*)?",
    r"bevor (?:sie|du) (?:zu .* )?(?:fortfahren|weitergehst)",
    r"avant d['’]accéder à .*",
    r"antes de (?:ir a|continuar).*",
    r"prima di continuare.*",
    r"voordat je verdergaat.*",
    r"(?:.* )?(?:cookie|privacy) ?(?:consent|wall|gate)",
)
CONSENT_ADDRESSES = (
    r"//(?:consent|guce|myprivacy)\.[\w.-]+/",
    r"/(?:cookie-?wall|(?:cookie|privacy|gdpr)?[-_]?consent|privacy-?gate|collectconsent)(?:[/?.]|$)",
)
LOADING_PHRASES = (
    r"loading|please wait|lädt|wird geladen|chargement|cargando|caricamento|carregando|laden|wczytywanie|ładowanie",
    r"загрузка|加载中|載入中|読み込み中",
)
SCRIPT_SENTENCES = (
    r"(?:please|must|need to|to) (?:enable|turn on|activate) (?:your )?javascript",
    r"requires? javascript",
    r"javascript (?:is|must be|has to be) (?:required|enabled|disabled|turned off|not enabled)",
    r"javascript (?:aktivieren|ist deaktiviert)",
    r"activer javascript",
    r"(?:habilit|activ)[ae]r? (?:el )?javascript",
    r"включите javascript",
)
