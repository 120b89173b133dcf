"""Read an editor's prompt: words, attached text and images."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)
from msgspec import Struct

from scaffold.agent.context.attachments import ATTACHMENT_PREFIX, IMAGE_BYTES, TEXT_LIMIT
from scaffold.agent.context.text_size import cut_middle
from scaffold.core.conversation import Image, ImageType

INVALID_PARAMS = -32602


class PromptContent(Struct, frozen=True):
    """What the user says, texts that the editor attached, and images."""

    words: str
    material: str = ""
    images: tuple[Image, ...] = ()


def read_prompt(blocks: Sequence[Any], *, images: bool) -> PromptContent:
    """Return the content of a prompt; raises RequestError for content of other types.

    `images`: whether the model accepts images.
    """
    words, material, pictures = list[str](), list[str](), list[Image]()
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                words.append(text)
            case ResourceContentBlock(uri=uri):
                path = _path_of(uri)
                # Named by `@`, the file is attached like one that is typed.
                words.append(uri if path is None or '"' in path or "\n" in path else f'@"{path}"')
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                material.append(f"{ATTACHMENT_PREFIX}{_path_of(uri) or uri}\n{cut_middle(text, TEXT_LIMIT)}")
            case ImageContentBlock() if images:
                pictures.append(_decode_image(block))
            case ImageContentBlock():
                raise _invalid_prompt("the model of this session does not accept images")
            case _:
                raise _invalid_prompt("only text, files and images are accepted")
    return PromptContent(" ".join(words), "\n\n".join(material), tuple(pictures))


def _path_of(uri: str) -> str | None:
    # None for a URI that does not name a file.
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    return path if parts.scheme == "file" and Path(path).is_absolute() and "\0" not in path else None


def _decode_image(block: ImageContentBlock) -> Image:
    media_type: ImageType | None = next((each for each in get_args(ImageType) if each == block.mime_type), None)
    if media_type is None:
        raise _invalid_prompt(f"images are {', '.join(get_args(ImageType))}")
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid_prompt("the image is not base64") from error
    if len(data) > IMAGE_BYTES:
        raise _invalid_prompt(f"an image is at most {IMAGE_BYTES:,} bytes")
    return Image(media_type, data)


def _invalid_prompt(why: str) -> RequestError:
    return RequestError(INVALID_PARAMS, f"this prompt cannot be taken: {why}")
