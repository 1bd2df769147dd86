"""A made-up encyclopaedia on loopback, the same on every machine: what the rendering bench prints.

    python bench/article_site.py [--pages 300]

Prints what the site is made of. Articles are English prose from a word list, with links, citation marks, tables,
MathML, paragraphs in CJK and right-to-left scripts, pictures (JPEG and PNG, part of them `loading=lazy`) and headings
in a web font, if the machine has a TrueType font to serve. The HTML has a median of 27 kB and at most 90 kB. With
`--serve` the site listens until its standard input ends.
"""

import argparse
import functools
import math
import random
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NOUNS = """harbour lamp cliff keeper tide tower engineer quarry moor railway bridge canal parish market chapel orchard
valley river mill forge ledger survey charter council regiment archive museum theatre school printer merchant colony
island reef glacier plateau forest meadow species genus habitat climate season storm harvest festival dialect alphabet
manuscript treaty election parliament province dynasty fortress observatory telescope engine turbine alloy mineral
compound reaction protein vaccine hospital library sculpture painting symphony novel poet composer architect"""
VERBS = """built described measured abandoned restored extended surveyed recorded replaced governed founded moved
published translated collected observed classified disputed defended connected supplied designed inherited divided
financed flooded excavated renamed celebrated"""
ADJECTIVES = """northern early narrow granite disused regional principal rare medieval coastal private public
seasonal volcanic experimental wooden royal modern rural industrial temporary permanent distant notable minor steep"""
NAMES = """Alder Brandt Castell Dunmore Eriksen Farrow Galloway Hollis Ingram Jessop Kovač Lindqvist Marlowe Nguyễn
Østergaard Pryce Quiroga Rådström Sørensen Thackeray Ullman Vasquez Whitlock Zürcher"""
FOREIGN = (
    ("ja", "ltr", "灯台は北の崖の上に立ち、港に入る船を見守っている。石の塔は一八七二年に技師によって築かれた。"),
    ("zh", "ltr", "这座石塔建于十九世纪，位于港口北侧的悬崖之上，至今仍由看守人照管。"),
    ("ar", "rtl", "تقع المنارة فوق الجرف الشمالي وتراقب السفن الداخلة إلى الميناء منذ القرن التاسع عشر."),
    ("he", "rtl", "המגדלור ניצב מעל הצוק הצפוני ומשקיף על האוניות הנכנסות לנמל."),
)
STYLE = """@font-face{font-family:Heading;src:url(/heading.ttf)}
body{font:16px/1.5 "Liberation Sans",Arial,sans-serif;margin:0 auto;max-width:60em;color:#202122}
h1,h2,h3{font-family:Heading,serif;border-bottom:1px solid #aaa}
header.top{position:sticky;top:0;background:#fff;border-bottom:1px solid #ccc}
nav{float:left;width:11em;font-size:80%} main{margin-left:12em}
figure{float:right;clear:right;width:320px;margin:0 0 1em 1em;border:1px solid #c8ccd1;background:#f8f9fa;font-size:85%}
table{border-collapse:collapse;margin:1em 0} td,th{border:1px solid #a2a9b1;padding:.2em .4em}
.infobox{float:right;clear:right;width:22em;background:#f8f9fa;font-size:88%;margin:0 0 1em 1em}
.note{background:#fef6e7;box-shadow:0 1px 3px #0003;border-radius:4px;padding:.5em}
.references{column-width:25em;font-size:85%} sup{line-height:0}
@media print{header.top,nav{display:none} main{margin:0}}
"""
HTML_MEDIAN_BYTES, HTML_SPREAD, HTML_MIN_BYTES, HTML_MAX_BYTES = 27_000, 0.55, 5_000, 88_000
PICTURES = (3, 10)  # least and most in an article; 6.5 on average
PICTURE_SIZE = (320, 240)
DISTINCT_PICTURES = 40  # each has many URLs, so that no browser cache helps
LAZY_SHARE = 0.4


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pages", type=int, default=300)
    arguments.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.serve:
        serve(given.pages)
    else:
        print(describe(given.pages))


def serve(pages: int) -> None:
    """Prints its port and what it is made of, and answers until standard input ends, so that nobody has to end it."""
    site = Site(pages)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    print(site.server_address[1], describe(pages), sep="\n", flush=True)
    sys.stdin.read()


def describe(pages: int) -> str:
    articles = [article(number) for number in range(pages)]
    sizes = [len(text.encode()) for text in articles]
    pictures = statistics.mean(text.count("<img ") for text in articles)
    of_pictures = statistics.median(len(picture(number)) for number in range(DISTINCT_PICTURES))
    return (
        f"{pages} articles, HTML median {statistics.median(sizes) / 1e3:.0f} kB, max {max(sizes) / 1e3:.0f} kB, "
        f"{pictures:.1f} pictures of {of_pictures / 1e3:.0f} kB each, {'a' if heading_font() else 'no'} web font"
    )


def paths(pages: int) -> list[str]:
    return [f"/wiki/Article_{number:04}" for number in range(pages)]


class Site(ThreadingHTTPServer):
    """Counts what it is asked; `/requests` gives the count and is not counted."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, pages: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = 0
        self.lock = threading.Lock()
        self.answers: dict[str, tuple[str, bytes]] = {"/style.css": ("text/css", STYLE.encode())}
        for number, path in enumerate(paths(pages)):
            self.answers[path] = ("text/html; charset=utf-8", article(number).encode())
        if heading_font():
            self.answers["/heading.ttf"] = ("font/ttf", heading_font())
        for number in range(DISTINCT_PICTURES):
            picture(number)  # made now, not while something is measured


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/requests":
            self.answer(200, "text/plain", str(self.server.requests).encode())
            return
        with self.server.lock:
            self.server.requests += 1
        if self.path.startswith("/media/"):
            number = int(self.path.rpartition("/")[2].partition(".")[0])
            self.answer(200, f"image/{self.path.rpartition('.')[2]}", picture(number % DISTINCT_PICTURES))
        elif self.path in self.server.answers:
            self.answer(200, *self.server.answers[self.path])
        else:
            self.answer(404, "text/plain", b"no such page")

    def answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@functools.cache
def article(number: int) -> str:
    draw = random.Random(number)
    size = HTML_MEDIAN_BYTES * math.exp(draw.gauss(0, HTML_SPREAD))
    size = min(max(size, HTML_MIN_BYTES), HTML_MAX_BYTES)
    title = f"{word(draw, ADJECTIVES).title()} {word(draw, NOUNS).title()} {number:04}"
    count = draw.randint(*PICTURES)
    pictures = [figure(draw, number * PICTURES[1] + index) for index in range(count)]
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<link rel="stylesheet" href="/style.css"></head><body><header class="top">Encyclopaedia</header>'
        f"<nav><ul>{''.join(f'<li>{link(draw)}</li>' for _ in range(12))}</ul></nav><main><h1>{title}</h1>",
        pictures.pop(),
        table(draw, 9, 2, "infobox"),
    ]
    written = sum(map(len, parts))
    wanted = size * 0.8 / (count + 1)  # the rest is references
    next_picture = wanted
    while written < size * 0.8:
        part = section(draw)
        if pictures and written > next_picture:
            part, next_picture = pictures.pop() + part, next_picture + wanted
        parts.append(part)
        written += len(part.encode())
    parts += pictures
    parts.append('<h2>References</h2><ol class="references">')
    while written < size:
        parts.append(f"<li>{word(draw, NAMES)}, {draw.choice('ABCDEF')}. ({draw.randint(1850, 2020)}). ")
        parts.append(f"<i>{sentence(draw)}</i> {link(draw)}.</li>")
        written += len(parts[-1].encode()) + len(parts[-2].encode())
    return "".join(parts) + "</ol></main></body></html>"


def section(draw: random.Random) -> str:
    parts = [f"<h2>{word(draw, ADJECTIVES).title()} {word(draw, NOUNS)}</h2>"]
    parts += [paragraph(draw) for _ in range(draw.randint(2, 4))]
    extra = draw.random()
    if extra < 0.25:
        parts.append(table(draw, draw.randint(4, 14), draw.randint(3, 6), "plain"))
    elif extra < 0.4:
        parts.append("<ul>" + "".join(f"<li>{sentence(draw)}</li>" for _ in range(draw.randint(3, 8))) + "</ul>")
    elif extra < 0.5:
        parts.append(formula(draw))
    elif extra < 0.6:
        language, direction, text = draw.choice(FOREIGN)
        parts.append(f'<p lang="{language}" dir="{direction}">{text}</p>')
    elif extra < 0.65:
        parts.append(f'<p class="note">{sentence(draw)}</p>')
    return "".join(parts)


def paragraph(draw: random.Random) -> str:
    return "<p>" + " ".join(sentence(draw) for _ in range(draw.randint(3, 7))) + "</p>"


def sentence(draw: random.Random) -> str:
    subject = f"the {word(draw, ADJECTIVES)} {word(draw, NOUNS)}"
    year, name = draw.randint(1100, 2020), word(draw, NAMES)
    mark = f'<sup><a href="#r{year}">[{year % 60 + 1}]</a></sup>'
    forms = (
        f"{subject.capitalize()} was {word(draw, VERBS)} by {name} in {year}.{mark}",
        f"In {year} {name} {word(draw, VERBS)} {subject} near {link(draw)}, and {word(draw, VERBS)} its "
        f"{word(draw, NOUNS)}.",
        f"{subject.capitalize()} of the {word(draw, NOUNS)}, which {name} had {word(draw, VERBS)}, was later "
        f"{word(draw, VERBS)} for {year % 97 + 3} years.{mark}",
        f"It is one of {year % 23 + 2} {word(draw, ADJECTIVES)} {word(draw, NOUNS)}s that {link(draw)} has.",
    )
    return draw.choice(forms)


def word(draw: random.Random, kind: str) -> str:
    return draw.choice(words(kind))


@functools.cache
def words(kind: str) -> list[str]:
    return kind.split()


def link(draw: random.Random) -> str:
    return f'<a href="/wiki/{word(draw, NOUNS).title()}">{word(draw, ADJECTIVES)} {word(draw, NOUNS)}</a>'


def figure(draw: random.Random, number: int) -> str:
    kind = "png" if number % DISTINCT_PICTURES % 3 == 0 else "jpeg"
    lazy = ' loading="lazy"' if draw.random() < LAZY_SHARE else ""
    width, height = PICTURE_SIZE
    return (
        f'<figure><img src="/media/{number}.{kind}" width="{width}" height="{height}" alt=""{lazy}>'
        f"<figcaption>{sentence(draw)}</figcaption></figure>"
    )


def table(draw: random.Random, rows: int, columns: int, style: str) -> str:
    head = "".join(f"<th>{word(draw, NOUNS).title()}</th>" for _ in range(columns))
    body = "".join(
        "<tr>" + "".join(f"<td>{word(draw, NAMES)} {draw.randint(1, 9999):,}</td>" for _ in range(columns)) + "</tr>"
        for _ in range(rows)
    )
    return f'<table class="{style}"><tr>{head}</tr>{body}</table>'


def formula(draw: random.Random) -> str:
    a, b = draw.randint(2, 99), draw.choice("xyzn")
    return (
        f'<p>It follows that <math display="block"><mi>{b}</mi><mo>=</mo><mfrac><mrow><mo>−</mo><mi>b</mi><mo>±</mo>'
        f"<msqrt><msup><mi>b</mi><mn>2</mn></msup><mo>−</mo><mn>{a}</mn><mi>a</mi><mi>c</mi></msqrt></mrow>"
        f"<mrow><mn>2</mn><mi>a</mi></mrow></mfrac></math> holds for every {word(draw, NOUNS)}.</p>"
    )


@functools.cache
def heading_font() -> bytes:
    """A TrueType font of this machine; empty where fontconfig has none."""
    if shutil.which("fc-match") is None:
        return b""
    asked = ["fc-match", "--format=%{file}", "DejaVu Serif:bold"]
    file = Path(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    return file.read_bytes() if file.suffix.lower() == ".ttf" else b""


@functools.cache
def picture(number: int) -> bytes:
    draw = random.Random(number)
    return png(draw) if number % 3 == 0 else jpeg(draw)


def png(draw: random.Random) -> bytes:
    """A noisy gradient in true colour, filtered by nothing."""
    width, height = PICTURE_SIZE
    base = [draw.randint(0, 200) for _ in range(3)]
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            shade = (x + y) // 12 + (draw.getrandbits(2) if (x // 8 + y // 8) % 3 == 0 else 0)
            rows += bytes((value + shade) & 255 for value in base)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def jpeg(draw: random.Random) -> bytes:
    """A baseline JPEG (ITU T.81) in three full-size components, written as coefficients: no cosine is computed.

    Every Huffman code has four bits: a symbol's code is its index in the table, of at most 15.
    """
    width, height = PICTURE_SIZE
    steps, frequencies = 12, 8  # categories of the DC table; AC coefficients kept of each block
    zeroes = bytes(3), bytes(12)

    def table(kind: int, symbols: bytes) -> bytes:
        return segment(0xC4, bytes((kind,)) + zeroes[0] + bytes((len(symbols),)) + zeroes[1] + symbols)

    def coded(value: int) -> str:
        size = abs(value).bit_length()
        return f"{size:04b}" + (f"{value if value > 0 else value + (1 << size) - 1:0{size}b}" if size else "")

    bits, level = [], [0, 0, 0]
    for _ in range(width // 8 * (height // 8)):
        for component in range(3):
            wanted = max(-60, min(60, level[component] + draw.randint(-6, 6)))
            bits.append(coded(wanted - level[component]))
            level[component] = wanted
            # Run 0 and never the value 0, so that only the symbols "no zero before it, size n" are needed.
            bits += [coded(draw.choice((-3, -2, -1, 1, 2, 3))) for _ in range(frequencies)]
            bits.append("0000")  # end of block
    stream = "".join(bits)
    stream += "1" * (-len(stream) % 8)
    data = int(stream, 2).to_bytes(len(stream) // 8, "big").replace(b"\xff", b"\xff\x00")
    parts = b"".join(bytes((index, 0x11, 0)) for index in (1, 2, 3))
    return (
        b"\xff\xd8"
        + segment(0xDB, b"\0" + bytes((16, *(12 + place for place in range(63)))))
        + segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + parts)
        + table(0x00, bytes(range(steps)))
        + table(0x10, bytes(range(steps)))
        + segment(0xDA, b"\x03" + b"".join(bytes((index, 0)) for index in (1, 2, 3)) + b"\0\x3f\0")
        + data
        + b"\xff\xd9"
    )


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


if __name__ == "__main__":
    main()
