"""The same pages give the same bytes, in whatever order and company they are printed.

Each page has what could differ between two runs: images that load late or only when they are in view, web fonts that
load late, scripts that fill the page in steps, animations.
"""

import asyncio
import random

import pytest

from corpus.hostile.answers import FONT_FILE, GREEN, RED, page, paragraphs
from corpus.hostile.pictures import PICTURES, gif
from corpus.hostile.rendering import Outcome, make_all, rendering
from corpus.hostile.site import Answers, Odd, Reply, Site, running, send

pytestmark = pytest.mark.browser

PAGES = 200
PAGES_IN_SUITE = 8  # each of `PARTS` at least once
BLUE = (0, 0, 220)


def delayed(reply: Reply, seconds: float) -> Odd:
    async def answer(site: Site, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await send(writer, reply)

    return answer


SPINNER = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='99' height='30'><circle r='9' cy='15'><animate attributeName='cx' "
    "from='0' to='99' dur='1s' repeatCount='indefinite'/></circle></svg>"
)
PARTS = (
    "<img src=/late.png width=64>",
    "<div style='height:3000px'></div><img src=/late.png loading=lazy width=64>",
    "<div style='height:3000px'></div><img id=i data-src=/late.png width=64><script>new IntersectionObserver("
    "e=>{if(e[0].isIntersecting)i.src=i.dataset.src}).observe(i)</script>",
    "<style>@font-face{font-family:W;src:url(/late.ttf)}</style><p style='font-family:W,serif'>a font that comes late</p>",
    "<canvas id=c width=90 height=40></canvas><script>const g=c.getContext('2d');for(let k=0;k<40;k++){g.fillStyle="
    "`hsl(${k*9} 90% 50%)`;g.fillRect(k*2,k,9,9)}</script>",
    "<p id=p></p><script>let k=0;const t=setInterval(()=>{p.textContent+=' step '+k;if(++k>9)clearInterval(t)},10)</script>",
    "<img src=/moving.gif width=64>",
    "<style>@keyframes m{from{margin-left:0;color:red}to{margin-left:90px;color:blue}}.m{animation:m 1s infinite}"
    ".o{animation:m .7s}</style><p class=m>goes round</p><p class=o>goes once</p>",
    SPINNER,
    "<img src=/moving.svg>",
    "<marquee>wanders</marquee>",
    "<iframe srcdoc='<style>@keyframes m{from{margin-left:0}to{margin-left:90px}}p{animation:m 1s infinite}</style>"
    "<p>goes round<progress></progress>'></iframe>",
    "<p style='transition:color 1s' id=q>turns</p><script>onload=()=>q.style.color='green'</script>",
    "<details><summary>more</summary>folded</details><progress></progress><input type=range><select><option>o</select>",
    "<script>document.body.append(...Array.from({length:60},(_,k)=>Object.assign(document.createElement('p'),"
    "{textContent:'made '+k})))</script>",
)  # fmt: skip


def answers() -> Answers:
    """Pages of three or four parts each, the same for each run."""
    chance = random.Random(4)
    made: Answers = {
        "/late.png": delayed(Reply(*PICTURES["png"]), 0.15),
        "/late.ttf": delayed(Reply(FONT_FILE.read_bytes(), "font/ttf"), 0.15),
        "/moving.svg": Reply(SPINNER.encode(), "image/svg+xml"),
        "/moving.gif": Reply(gif(RED, GREEN, BLUE), "image/gif"),
    }
    for n in range(PAGES):
        parts = [PARTS[2 * n % len(PARTS)], PARTS[(2 * n + 1) % len(PARTS)], *chance.sample(PARTS, 1 + n % 2)]
        made[f"/page-{n}"] = Reply(page(f"<h1>{n}</h1>{''.join(parts)}{paragraphs(1 + n % 5)}").encode())
    return made


async def printed(order: list[int], *, at_once: int) -> dict[int, Outcome]:
    async with running(answers()) as site, rendering(site.host) as renderer:
        made = await make_all(renderer, [site.url(f"/page-{n}") for n in order], at_once=at_once)
    return dict(zip(order, made, strict=True))


def facts(outcome: Outcome) -> tuple[object, ...]:
    """What the manifest says of it."""
    row = outcome.row
    return row and (row.pages, row.flags, row.images_expected, row.images_drawn)


@pytest.mark.parametrize("count", [PAGES_IN_SUITE, pytest.param(PAGES, marks=pytest.mark.long)])
async def test_render_gives_the_same_bytes_in_any_order(own_temp, count):
    order = list(range(count))
    first = await printed(order, at_once=4)
    random.Random(9).shuffle(order)
    second = await printed(order, at_once=2)

    assert [n for n in first if first[n].error or second[n].error] == []
    assert [n for n in first if first[n].pdf != second[n].pdf] == []
    assert [n for n in first if facts(first[n]) != facts(second[n])] == []
