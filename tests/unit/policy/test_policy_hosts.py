from scaffold.policy.rule.hosts import denied_url, metadata_host


def test_cloud_metadata_services_are_denied_in_every_spelling():
    """RA-13."""
    urls = [
        *("http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/v2/credentials", "http://2852039166/"),
        *("http://0xA9FEA9FE/", "http://0251.0376.0251.0376/", "http://169.254.43518/"),
        *("http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/", "http://metadata.google.internal/"),
        *("http://METADATA.google.internal./", "http://169.254.169.254.nip.io/", "http://user@169.254.169.254/"),
        *("http://100.100.100.200/", "http://168.63.129.16/"),
    ]
    assert [url for url in urls if denied_url(url).rule != "metadata" or not metadata_host(url)] == []


def test_private_addresses_and_invalid_urls_are_denied():
    """RA-13."""
    urls = [
        *("file:///etc/passwd", "ftp://example.org/", "gopher://x/", "javascript:alert(1)", "example.org"),
        *("http://127.0.0.1/", "http://127.1/", "http://0/", "http://[::1]/", "http://10.0.0.1/", "http://192.168.0.1/"),
        *("http://localhost:8080/", "http://x.localhost/", "http://printer.local/", "http://[::ffff:10.0.0.1]/"),
        *("https://evil.example\0.allowed.example/", "https://a\\@b/", "https://a\tb/", "http://[bad/", "http:///x"),
        *("//example.org", "http://①②⑦.0.0.1/", "http://ⓛocalhost/", "http://127。0。0。1/", "http://loc\u00adalhost/"),
        *("http://127.0.0.%31/", "http://a b/", "http://1.1.1.1:99999/", "https://evil%2f.allowed.example/"),
        *("http://intranet/", "http://router.lan/", "http://x.home.arpa/", "http://localhost.localdomain/"),
    ]  # fmt: skip
    assert [url for url in urls if denied_url(url).decision != "deny"] == []


def test_public_addresses_are_not_denied():
    """RA-13."""
    urls = (
        "https://docs.python.org/3/",
        "http://example.org:8080/?q=1#x",
        "https://8.8.8.8/",
        "https://user@a.example/",
    )
    assert [denied_url(url) for url in urls] == [None] * 4


def test_ordinary_words_are_not_addresses():
    """RA-13."""
    assert [metadata_host(word) for word in ("metadata", "10", "1.2.3", "a@b.c", "x.y", "2852039166x")] == [None] * 6
