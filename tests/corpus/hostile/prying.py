"""Every way known to us in which a page asks for another address: `KINDS` beside its text, `MOVES` in place of it.

`{u}` stands for the address, and ends in the name of the kind, so that a server can tell which of them reached it.
"""

KINDS = {
    "img": "<img src={u}>",
    "srcset": "<img srcset='{u} 1x'>",
    "picture": "<picture><source srcset={u}><img></picture>",
    "image-button": "<input type=image src={u}>",
    "style": "<link rel=stylesheet href={u}>",
    "style-import": "<style>@import url({u});</style>",
    "background": "<p style='background:url({u})'>b",
    "content-image": "<style>#c::before{{content:url({u})}}</style><p id=c>c",
    "list-image": "<ul style='list-style-image:url({u})'><li>l</ul>",
    "mask": "<p style='-webkit-mask-image:url({u})'>m",
    "font": "<style>@font-face{{font-family:P;src:url({u})}}</style><p style='font-family:P'>f",
    "script": "<script src={u}></script>",
    "module": "<script type=module src={u}></script>",
    "dynamic-import": "<script>import('{u}').catch(()=>0)</script>",
    "iframe": "<iframe src={u}></iframe>",
    "srcdoc": "<iframe srcdoc='<img src={u}>'></iframe>",
    "data-iframe": "<iframe src='data:text/html,<img src={u}>'></iframe>",
    "blob-iframe": (
        "<iframe id=bi></iframe><script>bi.src=URL.createObjectURL(new Blob(['<img src={u}>'],{{type:'text/html'}}))"
        "</script>"
    ),
    "iframe-refresh": "<iframe srcdoc='<meta http-equiv=refresh content=\"0;url={u}\">'></iframe>",
    "frame-form": (
        "<iframe name=ff></iframe><form id=fo target=ff method=post action={u}></form><script>fo.submit()</script>"
    ),
    "object": "<object data={u}></object>",
    "embed": "<embed src={u}>",
    "video": "<video preload=auto src={u}></video>",
    "poster": "<video poster={u}></video>",
    "audio": "<audio preload=auto src={u}></audio>",
    "svg-image": "<svg><image href={u} width=9 height=9 /></svg>",
    "preload": "<link rel=preload as=image href={u}>",
    "modulepreload": "<link rel=modulepreload href={u}>",
    "fetch": "<script>fetch('{u}').then(r=>r.text()).then(t=>document.body.append(t)).catch(()=>0)</script>",
    "fetch-no-cors": "<script>fetch('{u}',{{mode:'no-cors'}}).catch(()=>0)</script>",
    "xhr": "<script>{{const x=new XMLHttpRequest();x.open('GET','{u}');x.send()}}</script>",
    "event-source": "<script>new EventSource('{u}')</script>",
    "web-socket": "<script>new WebSocket('{u}'.replace('http','ws'))</script>",
    "beacon": "<script>navigator.sendBeacon('{u}')</script>",
    "ping": "<a id=pi ping={u} href='#x'>p</a><script>pi.click()</script>",
    "worker-import": (
        "<script>new Worker(URL.createObjectURL(new Blob([\"importScripts('{u}')\"])))</script>"
    ),
    "worker-fetch": "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('{u}')\"])))</script>",
    "shared-worker": (
        "<script>new SharedWorker('data:text/javascript,'+encodeURIComponent(\"fetch('{u}')\"))</script>"
    ),
    "popup": "<a id=po target=_blank rel=opener href={u}>p</a><script>po.click()</script>",
}  # fmt: skip

MOVES = {
    "refresh": '<meta http-equiv="refresh" content="0;url={u}">',
    "location": "<script>location='{u}'</script>",
    "late-location": "<script>onload=()=>setTimeout(()=>location='{u}',20)</script>",
    "replace": "<script>location.replace('{u}')</script>",
    "link": "<a id=a href={u}>a</a><script>a.click()</script>",
    "form": "<form id=f method=post action={u}></form><script>f.submit()</script>",
    "frame-breaker": "<iframe srcdoc=\"<script>top.location='{u}'</script>\"></iframe>",
    "open-self": "<a id=a target=_self href={u}>a</a><script>a.click()</script>",
    "by-way-of-the-site": "<script>location='/bounce'</script>",
}
