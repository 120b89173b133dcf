from scaffold.views.lookalikes import mark_lookalikes


def test_letters_that_look_like_others_are_marked():
    """RA-13: a person must see what is approved; text in another script stays readable."""
    table = {
        "git push": "git push",
        "p\u0430ypal.com": "p\u0430[U+0430]ypal.com",
        "\u0441\u0430t x": "\u0441[U+0441]\u0430[U+0430]t x",
        "\u0440\u0443": "\u0440[U+0440]\u0443[U+0443]",
        "\uff52\uff4d -rf": "\uff52[U+FF52]\uff4d[U+FF4D] -rf",
        "rm \u2212rf": "rm \u2212[U+2212]rf",
        "a\u2215b": "a\u2215[U+2215]b",
        "-m '\u041f\u0440\u0438\u0432\u0435\u0442'": "-m '\u041f\u0440\u0438\u0432\u0435\u0442'",
        "caf\u00e9 \u6f22\u5b57": "caf\u00e9 \u6f22\u5b57",
    }
    assert {text: mark_lookalikes(text) for text in table} == table
