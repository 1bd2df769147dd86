"""The text of a printed page, in thirty scripts, is the text that the page has: no letter twice, no blank inside a word."""

import asyncio
import shutil
import subprocess

import pytest

from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.bodies import Body
from rag_eval_pipeline.corpus.rendering.pages import render
from rag_eval_pipeline.corpus.rendering.pool import browser_pool
from rag_eval_pipeline.corpus.text.pdf_reader import read_texts

pytestmark = pytest.mark.browser

# Lines that fit on a sheet; most say the first article of the Universal Declaration of Human Rights.
SCRIPTS = {
    "Thai": (
        "th",
        [
            "ก) น้ำ ข) ดิน",
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
            "ต่างมีเหตุผลและมโนธรรม",
            "และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
            "น้ำมันและกำลังซื้ออยู่ที่นี่ ๒๕๖๗",
        ],
    ),
    "Lao": (
        "lo",
        [
            "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ ສິດທິ ເສລີພາບ ແລະ",
            "ຄວາມສະເໝີພາບເທົ່າທຽມກັນ ທຸກຄົນມີເຫດຜົນ ແລະ",
            "ຄວາມຄິດຄວາມເຫັນສ່ວນຕົວ ນ້ຳແລະຄຳ",
        ],
    ),
    "Khmer": (
        "km",
        [
            "មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព",
            "ក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរនិងសិទ្ធិ ។ មនុស្ស",
            "មានវិចារណញ្ញាណនិងសតិសម្បជញ្ញៈជាប់ពីកំណើត",
            "ហើយគប្បីប្រព្រឹត្ដចំពោះគ្នាទៅវិញទៅមក",
            "ក្នុងស្មារតីភាតរភាពជាបងប្អូន ។",
        ],
    ),
    "Burmese": (
        "my",
        [
            "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့်",
            "လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့်",
            "လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။",
            "ထိုသူတို့၌ ပိုင်းခြား ဝေဖန်တတ်သော ဉာဏ်နှင့်",
            "ကျင့်ဝတ် သိတတ်သော စိတ်တို့ရှိ၍ မြန်မာ ကြွက်",
            "ပြည်",
        ],
    ),
    "Bengali": (
        "bn",
        [
            "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং",
            "অধিকার নিয়ে জন্মগ্রহণ করে। তাঁদের বিবেক এবং",
            "বুদ্ধি আছে; সুতরাং সকলেরই একে অপরের প্রতি",
            "ভ্রাতৃত্বসুলভ মনোভাব নিয়ে আচরণ করা উচিত।",
            "কোথাও পৌঁছে ১৯৭১",
        ],
    ),
    "Devanagari": (
        "hi",
        [
            "सभी मनुष्यों को गौरव और अधिकारों के मामले में",
            "जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
            "उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है",
            "और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना",
            "चाहिए। कृष्ण, राष्ट्र, शक्ति, श्री, क्षेत्र",
            "२०२४",
        ],
    ),
    "Gujarati": (
        "gu",
        [
            "પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ સર્વ માનવો",
            "જન્મથી સ્વતંત્ર અને સમાન હોય છે. તેમનામાં",
            "વિચારશક્તિ અને અંતઃકરણ હોય છે અને તેમણે પરસ્પર",
            "બંધુત્વની ભાવનાથી વર્તવું જોઇએ.",
        ],
    ),
    "Gurmukhi": (
        "pa",
        [
            "ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ, ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ",
            "ਦੇ ਪੱਖੋਂ ਜਨਮ ਤੋਂ ਹੀ ਆਜ਼ਾਦ ਹੈ ਅਤੇ ਸੁਤੇ ਸਿੱਧ",
            "ਸਾਰੇ ਲੋਕ ਬਰਾਬਰ ਹਨ। ਉਨ੍ਹਾਂ ਸਭਨਾ ਨੂੰ ਤਰਕ ਅਤੇ",
            "ਜ਼ਮੀਰ ਦੀ ਸੌਗਾਤ ਮਿਲੀ ਹੋਈ ਹੈ।",
        ],
    ),
    "Oriya": (
        "or",
        [
            "ସବୁ ମନୁଷ୍ୟ ଜନ୍ମକାଳରୁ ସ୍ୱାଧୀନ ଏବଂ ମର୍ଯ୍ୟାଦା ଓ",
            "ଅଧିକାରରେ ସମାନ ଅଟନ୍ତି। ସେମାନଙ୍କ ଠାରେ ବୁଦ୍ଧି ଓ",
            "ବିବେକ ନିହିତ ଅଛି ଏବଂ ସେମାନଙ୍କୁ ପରସ୍ପର ପ୍ରତି",
            "ଭ୍ରାତୃତ୍ୱ ମନୋଭାବରେ ବ୍ୟବହାର କରିବା ଉଚିତ୍।",
        ],
    ),
    "Tamil": (
        "ta",
        [
            "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே",
            "பிறக்கின்றனர்; அவர்கள் மதிப்பிலும்",
            "உரிமைகளிலும் சமமானவர்கள். அவர்கள்",
            "நியாயத்தையும் மனச்சாட்சியையும் இயற்பண்பாகப்",
            "பெற்றவர்கள். ஸ்ரீ, கோவை, யௌவனம், கொள்கை",
        ],
    ),
    "Telugu": (
        "te",
        [
            "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును",
            "జన్మతః స్వతంత్రులును సమానులును నగుదురు. వారు",
            "వివేచన అంతఃకరణ సంపన్నులగుటచే పరస్పరము",
            "భ్రాతృభావముతో వర్తింపవలయును. శ్రీకృష్ణ",
        ],
    ),
    "Kannada": (
        "kn",
        [
            "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಹುಟ್ಟಿದ್ದಾರೆ. ಹಾಗೂ",
            "ಘನತೆ ಮತ್ತು ಹಕ್ಕುಗಳಲ್ಲಿ ಸಮಾನರಾಗಿದ್ದಾರೆ. ತಿಳಿವು",
            "ಮತ್ತು ಅಂತಃಕರಣಗಳನ್ನು ಪಡೆದವರಾದ್ದರಿಂದ, ಅವರು",
            "ಪರಸ್ಪರ ಸಹೋದರ ಭಾವದಿಂದ ವರ್ತಿಸಬೇಕು. ಕೃಷ್ಣ ರಾಷ್ಟ್ರ",
        ],
    ),
    "Malayalam": (
        "ml",
        [
            "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും",
            "അന്തസ്സോടും സ്വാതന്ത്ര്യത്തോടുംകൂടി",
            "ജനിച്ചവരാണ്. അന്യോന്യം ഭ്രാതൃഭാവത്തോടെ",
            "പെരുമാറുവാനാണ് മനുഷ്യന് വിവേകബുദ്ധിയും",
            "മനസ്സാക്ഷിയും സിദ്ധമായിരിക്കുന്നത്. കൊച്ചി",
        ],
    ),
    "Sinhala": (
        "si",
        [
            "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ගරුත්වයෙන්",
            "හා අයිතිවාසිකම්වලින් සමාන වෙති. යුක්ති අයුක්ති",
            "පිළිබඳ හැඟීමෙන් හා හෘදය සාක්ෂියෙන් යුත්",
            "ඔවුනොවුන්වුන්ට සැලකිය යුත්තේ සහෝදරත්වය පිළිබඳ",
            "හැඟීමෙනි. ශ්‍රී ලංකාව",
        ],
    ),
    "Tibetan": (
        "bo",
        [
            "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང༌།",
            "ཐོབ་ཐངགི་རང་དབང་འདྲ་མཉམ་དུ་ཡོད་ལ།",
            "ཁོང་ཚོར་རང་བྱུང་གི་བློ་རྩལ་དང་བསམ་ཚུལ་བཟང་པོ་འདོན་པའི་འོས་བབས་ཀྱང་ཡོད།",
        ],
    ),
    "Ethiopic": (
        "am",
        [
            "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
            "የተፈጥሮ ማስተዋልና ሕሊና ስላለው አንዱ ሌላውን በወንድማማችነት መንፈስ",
            "መመልከት ይገባዋል።",
        ],
    ),
    "Georgian": (
        "ka",
        [
            "ყველა ადამიანი იბადება თავისუფალი და თანასწორი",
            "თავისი ღირსებითა და უფლებებით. მათ მინიჭებული",
            "აქვთ გონება და სინდისი და ერთმანეთის მიმართ",
            "უნდა იქცეოდნენ ძმობის სულისკვეთებით.",
        ],
    ),
    "Armenian": (
        "hy",
        [
            "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց",
            "արժանապատվությամբ ու իրավունքներով։ Նրանք",
            "ունեն բանականություն ու խիղճ և միմյանց պետք է",
            "եղբայրաբար վերաբերվեն։",
        ],
    ),
    "Greek": (
        "el",
        [
            "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και",
            "ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι",
            "προικισμένοι με λογική και συνείδηση. Ἐν ἀρχῇ",
            "ἦν ὁ λόγος.",
        ],
    ),
    "Cyrillic": (
        "ru",
        [
            "Все люди рождаются свободными и равными в",
            "своём достоинстве и правах. Они наделены",
            "разумом и совестью и должны поступать в",
            "отношении друг друга в духе братства. Україна,",
            "Ѓорѓи",
        ],
    ),
    "Latin": (
        "vi",
        [
            "Tất cả mọi người sinh ra đều được tự do và",
            "bình đẳng về nhân phẩm và quyền. Efficient",
            "office affluence, Straße, naïve façade, Đặng",
            "Thị Ngọc Thịnh, fjord",
        ],
    ),
    "Han": (
        "zh",
        [
            "人人生而自由，",
            "在尊严和权利上一律平等。",
            "他们赋有理性和良心，",
            "并应以兄弟关系的精神相对待。",
            "深圳市與臺灣：「龍」（2024年）。",
        ],
    ),
    "Japanese": (
        "ja",
        [
            "すべての人間は、",
            "生まれながらにして自由であり、",
            "かつ、",
            "尊厳と権利とについて平等である。",
            "人間は、",
            "理性と良心とを授けられており、",
            "互いに同胞の精神をもって行動しなければならない。",
            "パリ・ガイド",
        ],
    ),
    "Hangul": (
        "ko",
        [
            "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은",
            "천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
        ],
    ),
    "Hebrew": (
        "he",
        [
            "כל בני האדם נולדו בני חורין ושווים בערכם",
            "ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך",
            "חובה עליהם לנהוג איש ברעהו ברוח של אחווה.",
        ],
    ),
    "Arabic": (
        "ar",
        [
            "يولد جميع الناس أحراراً متساوين في الكرامة",
            "والحقوق. وقد وهبوا عقلاً وضميراً وعليهم أن",
            "يعامل بعضهم بعضاً بروح الإخاء.",
        ],
    ),
    "Thaana": (
        "dv",
        [
            "ހުރިހާ އިންސާނުން ވެސް އުފަންވަނީ،",
            "މިނިވަންކަމުގައި، ހަމަހަމަ ޙައްޤުތަކަކާއެކު،",
            "ހަމަހަމަ ދަރަޖައެއްގައި ކަމޭހިތެވިގެންވާ",
            "ބައެއްގެ ގޮތުގައެވެ.",
        ],
    ),
    "Javanese": (
        "jv",
        [
            "ꦱꦧꦼꦤ꧀ꦮꦺꦴꦁꦏꦭꦲꦶꦂꦫꦏꦺꦏꦟ꧀ꦛꦶꦩꦂꦢꦶꦏꦭꦤ꧀ꦢꦂꦧꦺꦩꦂꦠꦧꦠ꧀",
        ],
    ),
    "Cherokee": (
        "chr",
        [
            "ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ ᎤᎾᏕᎿ ᏚᏳᎧᏛ ᎨᏒᎢ.",
        ],
    ),
    "Mongolian": (
        "mn",
        [
            "ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ ᠡᠷᠬᠡ ᠴᠢᠯᠥᠭᠡ ᠲᠡᠢ",
        ],
    ),
}
STYLES = ("", "font-family:serif", "font-weight:bold;font-size:23px", "text-align:justify;font-size:14px")


def page_of(lang: str, lines: list[str]) -> str:
    """Each line on its own and all of them as one block, in each style."""
    blocks = (
        f'<p dir="auto" style="{style};white-space:nowrap">{"<br>".join(lines)}</p>'
        f'<p dir="auto" style="{style}">{" ".join(lines)}</p>'
        for style in STYLES
    )
    return f'<!doctype html><meta charset="utf-8"><html lang="{lang}" dir="auto"><title>x</title>{"".join(blocks)}'


MIXED = """<!doctype html><meta charset="utf-8"><html lang="en"><title>x</title>
<p style="text-align:justify">The Hindi word <i>राष्ट्र</i> (<b>rāṣṭra</b>) means “nation”<sup>[1]</sup>, cf. <a href="x">d͡ʒ</a> and <i>e&#x301;t&#x304;</i>.</p>
<table border="1"><tr><td>नाम</td><td>Name</td><td>मूल्य 1,234.50</td></tr>
<tr><td>राष्ट्र</td><td>Nation<sup>2</sup></td><td>H<sub>2</sub>O</td></tr></table>"""
MIXED_TEXT = """The Hindi word राष्ट्र (rāṣṭra) means “nation”[1], cf. d͡ʒ and e\u0301t\u0304.
नाम Name मूल्य 1,234.50
राष्ट्र Nation2 H2O"""


@pytest.fixture(scope="module")
def printed(own_temp) -> dict[str, list[str]]:
    """The text of each page, by script."""

    async def all_of_them() -> dict[str, bytes]:
        async with Guard(EgressPolicy()) as guard, browser_pool(guard) as pool:
            bodies = {
                name: Body("html", page_of(*script).encode(), "http://document.invalid/")
                for name, script in SCRIPTS.items()
            }
            bodies["mixed"] = Body("html", MIXED.encode(), "http://document.invalid/")
            pdfs = [await render(pool, body, load_limit_s=30) for body in bodies.values()]
            return {name: printed.pdf for name, printed in zip(bodies, pdfs, strict=True)}

    return {name: read_texts(pdf) for name, pdf in asyncio.run(all_of_them()).items()}


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", SCRIPTS)
def test_text_of_a_script_is_the_page_s(name, printed):
    _, lines = SCRIPTS[name]
    letters = {char for line in lines for char in line if char.isalpha()}
    charset = " ".join(f"{ord(char):x}" for char in letters)
    if shutil.which("fc-list") and not subprocess.check_output(["fc-list", f":charset={charset}"]):
        pytest.skip(f"no installed font has the letters of {name}")

    text = "\n".join(printed[name])

    found = text.split("\n")
    assert [line for line in lines if found.count(line) < len(STYLES)] == []
    assert squeezed(text) == squeezed("".join([*lines, *lines] * len(STYLES)))


def test_brackets_of_an_enumeration_in_thai_stay_as_they_are(printed):
    """Both close: only a line that is read from the right has its brackets turned."""
    assert "ก) น้ำ ข) ดิน" in "\n".join(printed["Thai"]).split("\n")


def test_words_of_two_scripts_and_of_two_cells_stay_apart(printed):
    assert printed["mixed"] == [MIXED_TEXT]
