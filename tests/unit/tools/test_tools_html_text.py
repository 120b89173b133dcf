from inline_snapshot import snapshot

from scaffold.tools.web.html_text import read_page


def text(html):
    return read_page(html, "https://example.org/a/b").text


def test_a_page_becomes_its_visible_text():
    """RA-4."""
    page = read_page(
        """<!doctype html><html><head><title>A
        page</title><style>p {}</style><script>if (a < b) "</p>"</script></head><body>
        <h1>Big</h1><p>One   <b>bold</b>
        line&nbsp;&amp; more.</p><ul><li>x<li>y</ul><h2>Small</h2>
        <pre>  keep
    this</pre><table><tr><td>1<td>2</tr></table>last<br>line</body></html>""",
        "https://example.org/",
    )
    assert page.title == "A page"
    assert page.text == snapshot("""\
# Big

One bold line & more.

- x
- y

## Small

  keep
    this

| 1 | 2

last
line""")


def test_links_show_their_targets():
    assert text('<a href="../c?x=1&amp;y=2">See</a>.') == "See (https://example.org/c?x=1&y=2)."
    assert text('<a href="#top">Up</a> <a href="javascript:x()">run</a> <a href="/y"> </a>') == "Up run"
    assert text('<a href="https://x.org">https://x.org</a>') == "https://x.org"
    assert text('<a href="http://[bad">odd</a>') == "odd"


def test_broken_pages_are_parsed_as_far_as_possible():
    assert text("<p>a</b></div><b>c") == "a\nc"
    assert text("a<svg><g>x</svg>b") == "ab"
    assert text("a<script>never closed") == "a"
    assert text("</pre></a>x<iframe/>y") == "xy"
    assert text("<" * 1000) == "<" * 1000
    assert text("") == ""
    assert text("before<![<![<!") == "before"


def test_deep_nesting_is_supported():
    assert text("<div>" * 50_000 + "x") == "x"
