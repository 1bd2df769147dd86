"""What the hostile site answers: pages that misbehave in the browser, and answers that misbehave on the wire."""

import asyncio
import gzip
import struct
import subprocess
import zlib
from pathlib import Path

from corpus.hostile.pictures import PICTURES
from corpus.hostile.site import Answers, Reply, Site, page, send
from corpus.making import png, simple_pdf

RED, GREEN, BLACK = (200, 0, 0), (0, 160, 0), (0, 0, 0)
PDF = simple_pdf("PUBLISHED one", "PUBLISHED two")

_WORDS = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. " * 12
_TALL = '<div style="height:6000px"></div>'


def paragraphs(count: int) -> str:
    return "".join(f"<p>{n} {_WORDS}</p>" for n in range(count))


def cells(row: int) -> str:
    return "".join(f"<td>{row}.{column}</td>" for column in range(10))


def shades(size: int) -> bytes:
    """A large black picture in few bytes: one bit a pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + (size + 7) // 8) * size)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


PAGES = {
    # What is there only for those who look.
    "lazy": page(f"<p>TOP</p>{_TALL}<img src=/red.png loading=lazy width=64><p>END</p>"),
    "lazy-by-observer": page(
        f"<p>TOP</p>{_TALL}<img id=i data-src=/red.png width=64><p id=t>NOTSEEN</p><script>new IntersectionObserver("
        "e=>{if(e[0].isIntersecting){i.src=i.dataset.src;t.textContent='SEEN'}}).observe(i)</script>"
    ),
    "lazy-by-scroll": page(
        f"<p>TOP</p>{_TALL}<img id=i data-src=/red.png width=64><script>addEventListener('scroll',()=>"
        "{if(scrollY>4000)i.src=i.dataset.src})</script>"
    ),
    "details": page(
        f'<details><summary>More</summary>FOLDED</details><div style="max-height:60px;overflow:auto">{paragraphs(6)}'
        "<p>SCROLLED</p></div>"
    ),
    "inner-scroller": page(
        f'<div style="height:100vh;overflow:auto">{paragraphs(60)}<p>END</p></div>',
        "<style>html,body{height:100%;margin:0;overflow:hidden}</style>",
    ),
    "cookie-wall": page(
        f'<div style="position:fixed;inset:0;background:#fff;z-index:9">COOKIES</div>{paragraphs(30)}<p>END</p>',
        "<style>body{overflow:hidden;height:100vh}</style>",
    ),
    "fixed-header": page(f'<div style="position:fixed;top:0">HEADER</div>{paragraphs(30)}<p>END</p>'),
    "sticky-header": page(f'<div style="position:sticky;top:0">HEADER</div>{paragraphs(30)}<p>END</p>'),
    "fades-in": page(
        "<p class=f>FADED</p><p>END</p>",
        "<style>@keyframes f{from{color:#fff;transform:scale(.1)}}.f{animation:f 9s}</style>",
    ),
    # What print style sheets do.
    "print-css": page(
        "<p>ALWAYS</p><p class=s>SCREENONLY</p><p class=p>PRINTONLY</p>",
        "<style>@media print{.s{display:none}}@media screen{.p{display:none}}</style>",
    ),
    "print-hides-all": page(
        f"<main>{paragraphs(3)}<p>ARTICLE</p></main><p>AD</p>", "<style>@media print{main{display:none}}</style>"
    ),
    "at-page": page(f"{paragraphs(10)}<p>END</p>", "<style>@page{size:A3 landscape;margin:5cm}</style>"),
    # What a page is made of.
    "iframe": page("<iframe src=/plain width=600 height=200></iframe><p>END</p>"),
    "scripts-of-the-world": page(
        "<p>深度学习 日本語 한국어 القاهرة ירושלים भारत ไทย 🚀 👩‍🔬 ½ x² H₂O</p>"
    ),
    "canvas": page(
        "<canvas id=c width=200 height=100></canvas><p>END</p><script>const g=c.getContext('2d');"
        "g.fillStyle='rgb(0,160,0)';g.fillRect(10,10,100,50)</script>"
    ),
    "mathml": page("<p>MATH</p><math><mfrac><mn>17</mn><mi>k</mi></mfrac></math>"),
    "web-font": page(
        "<p style='font-family:Webby,serif'>FONT</p>",
        "<style>@font-face{font-family:Webby;src:url(/font.ttf)}</style>",
    ),
    "video": page("<video src=/hang autoplay controls></video><p>END</p>"),
    **{f"{name}-picture": page(f"<img src=/{name}.png width=500><p>END</p>") for name in ("large", "giant")},
    "missing-picture": page("<img src=/nothing.png><p>END</p>"),
    "anchor": page("".join(f"<h2 id=S{n}>S{n}</h2>{paragraphs(3)}" for n in range(30)) + "<p>END</p>"),
    **{name: page("".join(f"<p>row {n} {'lorem ipsum dolor sit amet ' * 25}</p>" for n in range(rows)) + "END")
       for name, rows in {"97-sheets": 700, "828-sheets": 6000}.items()},
    **{name: page(f"<table>{''.join(f'<tr>{cells(n)}</tr>' for n in range(rows))}</table><p>END</p>")
       for name, rows in {"table": 1000, "long-table": 10_000}.items()},
    "too-long": page("<p>TOP</p><div style='height:30000000px'></div><p>END</p>"),
    # Scripts that do not end, or ask.
    "timers": page("<p id=x>0</p><p>END</p><script>setInterval(()=>{x.textContent=+x.textContent+1},1)</script>"),
    "never-idle": page(
        "<p>END</p><script>(async()=>{for(;;)try{await fetch('/hang')}catch{}})();"
        "setInterval(()=>fetch('/ping?'+Math.random()),200)</script>"
    ),
    "fills-itself-late": page(
        "<div id=root>Loading</div><script>setTimeout(()=>{root.innerHTML='<h1>FILLED</h1>'},1500)</script>"
    ),
    "dialogs": page("<script>alert('a');confirm('b');prompt('c')</script><p>END</p>"),
    "beforeunload": page("<script>onbeforeunload=e=>{e.preventDefault();return 'x'}</script><p>END</p>"),
    "prints-itself": page("<p>END</p><script>window.print()</script>"),
    "loops-later": page("<p>END</p><script>onload=()=>setTimeout(()=>{for(;;);},10)</script>"),
    "loops-at-once": page("<p>END</p><script>for(;;);</script>"),
    "loops-when-printed": page("<p>END</p><script>onbeforeprint=()=>{for(;;);}</script>"),
    "grows-on-scroll": page(
        "<div id=d></div><p>END</p><script>function a(){for(let k=0;k<20;k++){let p=document.createElement('p');"
        "p.textContent='row '.repeat(60);d.append(p)}}a();new IntersectionObserver(a)"
        ".observe(document.body.lastElementChild);onscroll=a</script>"
    ),
    "grows-by-itself": page(
        "<p>TOP</p><script>(function f(){for(let k=0;k<5;k++){let p=document.createElement('p');"
        "p.textContent='row '.repeat(60);document.body.append(p)}requestAnimationFrame(f)})()</script>"
    ),
    "eats-memory": page(
        "<p>END</p><script>const a=[];setInterval(()=>{const b=new Uint8Array(5e7);b.fill(7);a.push(b)},5)</script>"
    ),
    "eats-heap": page("<p>END</p><script>const a=[];for(;;)a.push('x'.repeat(99)+a.length,{a})</script>"),
    "popups": page(
        "<script>window.open('/plain');window.open('/plain')</script><a id=a target=_blank href=/plain>a</a>"
        "<form id=f target=_blank action=/plain></form><script>a.click();f.submit()</script><p>END</p>"
    ),
    "service-worker": page("<p>END</p><script>navigator.serviceWorker.register('/sw.js')</script>"),
    "downloads": page(
        "<p>END</p><a id=a download=x href=/binary>a</a><iframe src=/attachment></iframe>"
        "<script>a.click();location='/binary'</script>"
    ),
    "asks-for-password-inside": page("<img src=/401><iframe src=/401></iframe><script src=/401></script><p>END</p>"),
    # Pages that lead elsewhere.
    "refreshes-itself": page("<p>END</p>", '<meta http-equiv="refresh" content="0">'),
    "script-redirect": page("<p>FIRST</p><script>location.href='/plain'</script>"),
    "late-redirect": page("<p>FIRST</p><script>onload=()=>setTimeout(()=>{location='/plain'},30)</script>"),
    "circle": page("<p>FIRST</p><script>location.href='/circle-2'</script>"),
    "circle-2": page("<p>SECOND</p><script>location.href='/circle'</script>"),
    "spin": page("<p>FIRST</p><script>location.href='/spin-2'</script>"),
    "spin-2": page("<p>SECOND</p><script>location.reload()</script>"),
    "for-ever-on": page("<p>ON</p><script>location.search='?'+(+location.search.slice(1)+1)</script>"),
    "leads-to-404": page("<p>FIRST</p><script>location.href='/nothing'</script>"),
    "leads-to-blank": page("<p>FIRST</p><script>location.href='about:blank'</script>"),
    "leads-to-pdf": page("<p>FIRST</p><script>location.href='/pdf'</script>"),
    # What looks like a page and is none; whoever judges pages decides about these.
    "lost": page("<h1>Page not found</h1><p>Sorry.</p>", title="404 - Page not found"),
    "guarded": page("<h1>Just a moment...</h1><p>Checking your browser.</p>", title="Just a moment..."),
    # Answers around a page.
    "plain": page("<p>PLAIN</p>"),
    "hangs-on-picture": page("<img src=/hang><p>END</p>"),
    "hangs-on-style": page("<p>END</p>", "<link rel=stylesheet href=/hang>"),
    "hangs-on-script": page("<p>END</p><script src=/hang></script><p>AFTER</p>"),
    "drips-a-script": page("<p>END</p><script src=/drip></script><p>AFTER</p>"),
    "cut-picture": page("<img src=/cut.png width=64><p>END</p>"),
    "compressed-bomb-inside": page("<p>END</p><script src=/bomb></script>"),
}  # fmt: skip


async def hang(site: Site, writer: asyncio.StreamWriter) -> None:
    """Says nothing and stays connected."""
    await site.done.wait()


async def cut_picture(site: Site, writer: asyncio.StreamWriter) -> None:
    """A picture that ends before its stated length."""
    body = png(*RED)[:60]
    await send(writer, Reply(body, "image/png"), length=2 * len(body))


async def drip(site: Site, writer: asyncio.StreamWriter) -> None:
    """A body that goes on for ever, a little at a time."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while not site.done.is_set():
        writer.write(b"<p>drip</p>")
        await writer.drain()
        await asyncio.sleep(0.05)


async def slow(site: Site, writer: asyncio.StreamWriter) -> None:
    """A body in pieces, without a stated length."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n")
    for n in range(20):
        writer.write(f"<p>chunk {n}</p>".encode())
        await writer.drain()
        await asyncio.sleep(0.02)
    writer.write(b"<p>END</p>")


async def reset(site: Site, writer: asyncio.StreamWriter) -> None:
    """Hangs up at once."""
    writer.transport.abort()


def attached(body: bytes, content_type: str) -> Reply:
    return Reply(body, content_type, headers=("Content-Disposition: attachment; filename=x",))


_LATIN = "<html><title>é</title><body>café MARK-é naïve</body></html>".encode("latin-1")
_PASSWORD = 'WWW-Authenticate: Basic realm="x"'


def a_font() -> tuple[Path, bytes]:
    """A font that pages do not get unless they ask for it by name: its file, and what a PDF calls it."""
    asked = ["fc-match", "-f", "%{file}\n%{postscriptname}", "monospace"]
    file, name = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return Path(file), name.encode()


FONT_FILE, FONT_NAME = a_font()

WIRE: Answers = {
    "/font.ttf": Reply(FONT_FILE.read_bytes(), "font/ttf"),
    "/red.png": Reply(png(*RED), "image/png"),
    "/large.png": Reply(shades(4500), "image/png"),
    "/giant.png": Reply(shades(9000), "image/png"),
    "/cut.png": cut_picture,
    "/sw.js": Reply(b"self.addEventListener('fetch',e=>{})", "text/javascript"),
    "/binary": Reply(b"\0\1\2", "application/octet-stream"),
    "/attachment": attached(b"\0\1\2", "application/octet-stream"),
    "/ping": Reply(b"ok", "text/plain"),
    "/hang": hang,
    "/drip": drip,
    "/slow": slow,
    "/reset": reset,
    "/401": Reply(b"<p>who", status=401, headers=(_PASSWORD,)),
    "/bomb": Reply(gzip.compress(bytes(25_000_000), mtime=0), "text/javascript", headers=("Content-Encoding: gzip",)),
    "/wrong-charset": Reply(_LATIN),
    "/utf-16": Reply("\ufeff<p>café MARK-é</p>".encode("utf-16-le"), "text/html"),
    "/pdf": Reply(PDF, "application/pdf"),
    "/pdf-as-picture": Reply(PDF, "image/png"),
    "/pdf-cut": Reply(PDF[: len(PDF) // 2], "application/pdf"),
    "/html-attached": attached(PAGES["lazy"].encode(), "text/html"),
    "/json": Reply(b'{"a": [1, 2, 3], "t": "END"}', "application/json"),
    "/xml": Reply(b"<?xml version='1.0'?><a>END</a>", "application/xml"),
    "/cut-image": Reply(png(*RED)[:40], "image/png"),
    "/html-as-svg": Reply(b"<p>no picture", "image/svg+xml"),
}

ANSWERS: Answers = {f"/{name}": Reply(content.encode()) for name, content in PAGES.items()} | WIRE
ANSWERS |= {f"/{kind}-image": Reply(data, label) for kind, (data, label) in PICTURES.items()}
ANSWERS |= {"/tall-image": Reply(shades(4000), "image/png")}
