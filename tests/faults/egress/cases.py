"""URLs, redirects and page parts that lead to this machine or its network, and what must become of each."""

METADATA = "169.254.169.254"
PUBLIC = "93.184.216.34"  # has a web site in the tests' network
ALLOWED = "10.0.0.5:8081"  # the operator's own RAG server, which the settings allow

NAMES = {
    "public.test": [PUBLIC],
    "inner.test": [METADATA],
    "alias-of-inner.test": [METADATA],
    "mixed.test": [PUBLIC, "10.0.0.1"],
    "six.test": [PUBLIC, "fd00:ec2::254"],
    "mapped.test": [f"::ffff:{METADATA}"],
    **{f"flips-{use}.test": [PUBLIC, METADATA] for use in ("form", "redirect", "page", "control")},
}

BLOCKED = (
    # Row 1.
    "http://127.0.0.1/", "http://127.8.9.1/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/",
    f"http://{METADATA}/", f"HTTP://{METADATA}/", f"https://{METADATA}/", f"http://{METADATA}:8080/",
    f"http://{METADATA}./", "http://100.64.0.1/", "http://0.0.0.0/", "http://0/", "http://198.18.0.1/", "http://192.0.0.192/",
    "http://240.0.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://2852039166/", "http://0xa9fea9fe/",
    "http://025177524776/", "http://0xa9.254.0251.254/", "http://169.16689662/",
    "http://169.254.43518/", "http://127.1/", "http://10.1/", "http://0x7f.1/", "http://017700000001/",
    f"http://{PUBLIC}:22/", f"http://{PUBLIC}:6379/", f"http://{ALLOWED.replace('8081', '8080')}/",
    # Row 2.
    "http://[::1]/", "http://[::]/", f"http://[::ffff:{METADATA}]/", "http://[::ffff:a9fe:a9fe]/", "http://[::a9fe:a9fe]/",
    f"http://[::{METADATA}]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/", "http://[::ffff:0:7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:5ef5:79fd::1]/", "http://[fec0::1]/", "http://[fc00::1]/", "http://[fd00:ec2::254]/",
    "https://[fd00:ec2::254]/", "http://[fe80::1]/", "http://[100::1]/", "http://[2001:db8::1]/", "http://[3fff::1]/",
    "http://[5f00::1]/", "http://[ff02::1]/",
    # Row 3.
    "http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://printer.local/",
    "http://metadata.google.internal/", "http://inner.test/", "http://alias-of-inner.test/", "http://mixed.test/", "http://six.test/", "http://mapped.test/",
    "http://[fe80::1%lo]/", "http://169。254。169。254/",
)  # fmt: skip

BAD = (
    # Row 6. To a browser, digits and dots of other scripts are those of ASCII.
    "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/", "http://１６９.254.169.254/", "http://0251.0376.0251.0376/", f"http://{PUBLIC}@{METADATA}/", f"http://a:b@{METADATA}/", f"http://{METADATA}:80@{PUBLIC}/", f"http://{PUBLIC}\\@{METADATA}/",
    f"http://{METADATA}\\.{PUBLIC}/", f"http://{PUBLIC}\r\nHost: {METADATA}/", "http://169.254\t.169.254/",
    "http://169.254\n.169.254/", f"http://{METADATA}\0.public.test/", f"http:{METADATA}/", f"http:/{METADATA}/",
    f"http:///{METADATA}/", "http://[::1", "http://xn--a/",
    f"http://{METADATA}:99999/", f"http://{METADATA}:0/", f" http://{METADATA}/ ", "http://[::ffff:169.254.169.254]evil/", "http://",
)  # fmt: skip

# Row 7. `//host` and a path have no scheme.
SCHEMES = (
    "file:///etc/passwd", f"file://{METADATA}/etc/passwd", "data:text/html,x", "blob:http://h/1", f"ftp://{METADATA}/x",
    "javascript:alert(1)", "chrome://version", f"view-source:http://{METADATA}/", "about:blank", f"gopher://{METADATA}/",
    f"filesystem:http://{METADATA}/x", f"ws://{METADATA}/", f"//{METADATA}/", "/etc/passwd", f"{METADATA}/",
)  # fmt: skip

FORMS = (
    dict.fromkeys(BLOCKED, "egress_blocked")
    | dict.fromkeys(BAD, "bad_url")
    | dict.fromkeys(SCHEMES, "scheme")
    | {"http://[fe80::1%25lo]/": "host_unresolved"}
)

# Row 4, by what follows: some lead back to the public site, which has nothing there.
LOCATIONS = {
    f"http://{METADATA}/": "egress_blocked",
    f"//{METADATA}/": "egress_blocked",
    f"https://{METADATA}/": "egress_blocked",
    "HTTP://2852039166/": "egress_blocked",
    "//0xa9fea9fe": "egress_blocked",
    f"http://[::ffff:{METADATA}]/": "egress_blocked",
    "http://[fd00:ec2::254]/": "egress_blocked",
    "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/": "bad_url",
    f"  http://{METADATA}/  ": "egress_blocked",
    "http://inner.test/": "egress_blocked",
    f"http://{ALLOWED}/": "egress_blocked",
    f"http:{METADATA}": "http_404",
    f"https:{METADATA}": "bad_url",
    f"http:/{METADATA}": "http_404",
    f"http:///{METADATA}/": "http_404",
    f"///{METADATA}/": "http_404",
    f"\\\\{METADATA}\\": "http_404",
    f"/\\{METADATA}/": "http_404",
    f"http:\\\\{METADATA}\\": "http_404",
    f"http://{PUBLIC}@{METADATA}/": "bad_url",
    f"http://{PUBLIC}\\@{METADATA}/": "bad_url",
    "http://xn--a/": "bad_url",
    "http://[::1": "bad_url",
    "file:///etc/passwd": "scheme",
    f"gopher://{METADATA}/": "scheme",
    f"ftp://{METADATA}/": "scheme",
    "data:text/html,x": "scheme",
    "javascript:alert(1)": "scheme",
    "about:blank": "scheme",
    "mailto:x": "scheme",
    "/redirect/loop": "too_many_redirects",
    "/hops/5": "too_many_redirects",
    "/hops/4": "ok",
    "http://flips-redirect.test/here": "ok",
}

# What one page asks for by every kind of request, and where pages lead.
TARGETS = {"metadata": METADATA, "allowed": ALLOWED}
MOVE_TARGETS = (
    METADATA, "[fd00:ec2::254]", ALLOWED, "127.0.0.1", "[::1]", "2852039166", "inner.test", f"[::ffff:{METADATA}]",
)  # fmt: skip

# Beside the kinds of `prying`: what opens connections or sends datagrams.
SILENT = f"""
<link rel=preconnect href=http://{METADATA}:8080>
<link rel=prefetch href=http://{METADATA}/prefetch><link rel=manifest href=http://{METADATA}/manifest>
<link rel=icon href=http://{METADATA}/icon>
<script type=speculationrules>{{"prerender":[{{"source":"list","urls":["http://{METADATA}/prerender"]}}],
"prefetch":[{{"source":"list","urls":["http://{METADATA}/speculation"]}}]}}</script>
<script>
try {{ new WebTransport('https://{METADATA}:8443/') }} catch {{}}
const c = new RTCPeerConnection({{iceServers: [{{urls: ['stun:{METADATA}:3478', 'stun:{PUBLIC}:3478', 'turn:10.0.0.9:3478?transport=tcp'],
  username: 'u', credential: 'c'}}]}})
c.createDataChannel('x')
c.onicegatheringstatechange = () => {{ if (c.iceGatheringState == 'complete') rtc.textContent = 'GATHERED '.repeat(50) }}
c.createOffer().then(o => c.setLocalDescription(o))
</script><p id=rtc></p>"""
