"""A user's message with what it attaches."""

from collections.abc import Callable

from scaffold.agent.context.attachments import attach
from scaffold.core.conversation import Image, Text
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.session.options import SessionOptions


def user_parts(
    words: str,
    material: str,
    options: SessionOptions,
    model: str,
    *,
    clean: Callable[[str], str],
    tell: Callable[[str], object],
) -> tuple[Text | Image, ...]:
    """Return a message for this model; `tell` receives what could not be attached, `clean` removes secrets."""
    images = model_card(parse_model(model)).images
    attached = attach(words, cwd=options.cwd, home=options.home, images=images, clean=clean)
    for notice in attached.notices:
        tell(notice)
    parts = (*attached.parts, Text(clean(material)))
    return tuple(part for part in parts if isinstance(part, Image) or part.text.strip())
