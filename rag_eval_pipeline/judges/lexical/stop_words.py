"""Words that every sentence of a language has; folded, and without those that negate or compare."""

from rag_eval_pipeline.judges.lexical.settings import LanguageCode

_TEXTS: dict[LanguageCode, str] = {
    "en": """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each even ever for from further had has have having he her here
    hers herself him himself his how however i if in into is it its itself just let me might must my myself of off
    on once one only or other our ours ourselves out over own per shall she should so some such than that the
    their theirs them themselves then there these they this those through thus to too under until up upon us very
    via was we were what when where whether which while who whom whose why will with within would yes you your
    yours yourself not no nor never without cannot none neither don't doesn't didn't isn't aren't wasn't weren't
    won't wouldn't can't couldn't shouldn't hasn't haven't hadn't it's that's there's i'm you're we're they're
    i've we've they've
    """,
    "de": """
    aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da damit dann das dass
    dazu dein dem den denn der des deren dessen die dies diese diesem diesen dieser dieses doch dort du durch ein
    eine einem einen einer eines er es etwas euch euer fur gegen hab habe haben hat hatte hatten hier hin ich ihm
    ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jener kann kein keine
    keinem keinen keiner konnen man mein mich mir mit nach nein nicht noch nun nur ob oder ohne sehr sein seine
    seinem seinen seiner sich sie sind so sowie uber um und uns unser unter vom von vor war waren was weil welche
    welcher wenn wer werden wie wieder will wir wird wo wurde wurden zu zum zur zwischen
    """,
    "fr": """
    a ai alors apres au aucun aussi autre aux avait avant avec avoir ce ceci cela celle celui ces cet cette chez
    comme dans de depuis des donc dont du elle elles en encore entre est et etaient etait etant ete etre eu eux
    fait il ils je la le les leur leurs lors lui ma mais me meme mes moi mon ne ni non nos notre nous on ont ou
    oui par parce pas pendant peut pour qu quand que quel quelle quelles quels qui sa sans se sera ses si son sont
    sous sur ta te tes toi ton tous tout toute toutes tu un une vos votre vous y l d j m t s n c
    """,
    "es": """
    a al algo algunas algunos ante antes aqui asi aun aunque como con contra cual cuales cuando de del desde donde
    dos durante e el ella ellas ellos en entre era eran es esa esas ese eso esos esta estaba estado estan estas
    este esto estos fue fueron ha habia han hasta hay la las le les lo los mas me mi mis mucho muy nada ni no nos
    nosotros o os otra otro otros para pero por porque que quien se sea ser si sido sin sobre son su sus tal
    tambien tanto te tiene tienen todo todos tu tus un una unas uno unos y ya yo
    """,
    "it": """
    a ad agli ai al alla alle allo anche che chi ci come con cui da dagli dai dal dalla dalle dallo degli dei del
    della delle dello di dopo dove due e ed era erano essere fu furono gli ha hanno i il in io la le lei li lo
    loro lui ma me mi mia mio ne negli nei nel nella nelle nello no noi non nostro o ogni per perche piu prima
    quale quali quando quanto quella quelle quelli quello questa queste questi questo se sei si sia siamo sono sta
    stata state stati stato su sua sue sugli sui sul sulla sulle sullo suo suoi tra tu tutti tutto un una uno voi
    l d un c s
    """,
    "pt": """
    a ao aos aquela aquele aquilo as ate com como da das de dela delas dele deles depois do dos e ela elas ele
    eles em entre era eram essa essas esse esses esta estao estas estava este estes eu foi foram ha isso isto ja
    la lhe mais mas me mesmo meu minha muito na nao nas nem no nos nossa nosso num numa o os ou para pela pelas
    pelo pelos por porque quais qual quando que quem se sem ser sera seu seus sim sao so sua suas tambem te tem
    ter teu tinha todo todos tu um uma voce
    """,
    "nl": """
    aan al alle als ben bij daar dan dat de deze die dit doch doen door dus een en er ge geen haar had heb hebben
    heeft hem het hier hij hoe hun iets ik in is ja je kan kon maar me meer men met mij mijn moet na naar niet nog
    nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit uw van veel voor want waren was wat
    werd werden wezen wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou
    """,
    "ru": """
    а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да для до его ее еи если
    есть еще же за здесь и из или им их к как ко когда кто ли либо мне мы на над нам нас не него нее неи нет ни
    них но о об однако он она они оно от по под при с со так также такои там те тем то того тоже тои только том ты
    у уже хотя чего чеи чем что чтобы чье эта эти это этого этои этом этот я
    """,
    "pl": """
    a aby ale bardzo bez bo by byc byl byla bylo byly co czy dla do go i ich ile im innych ja jak jako je jednak
    jego jej jest jeszcze juz kiedy kto ktora ktore ktorego ktorej ktory ktorych lub ma mi mnie moze na nad nas
    nie nim o od oraz po pod podczas przed przez przy sa sie ta tak takze tam te tego tej ten to tu tym u w we
    wiec wlasnie wszystko z za ze
    """,
    "tr": """
    acaba ama ancak bana bazı ben beni bir biz bu bunu bunun da daha de defa degil diye en gibi hem hep her hic
    icin ile ise kadar ki kim mi mu mı ne neden nerede nasıl niye o olan olarak oldu onlar onu onun sen siz su tum
    ve veya ya yani
    """,
    "zh": "的 了 是 在 和 与 及 或 也 都 就 而 着 之 其 这 那 个 们 于 为 以 被 把 从 到 "
    "对 有 我 你 他 她 它 不 没 吗 呢 吧",
    "ja": "の は が を に で と も や へ か ら て た だ し れ さ す る い な ま お こ そ あ う り く ん ょ ゃ ゅ っ",
    "ko": "그 이 저 것 수 등 및 또는 그리고 하지만 에서 으로 에게",
    "ar": "في من على إلى عن مع هذا هذه ذلك تلك التي الذي كان كانت هو هي هم أن إن ما لا لم لن قد و أو ثم بعد قبل كل",
    "hi": "का के की को में से पर है हैं था थी थे और या यह वह ये वे ने भी तो ही कि जो एक इस उस लिए नहीं न हो कर",
}

STOP_WORDS: dict[LanguageCode, frozenset[str]] = {
    language: frozenset(text.split()) for language, text in _TEXTS.items()
}
