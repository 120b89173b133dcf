"""Programming languages whose code is split by its definitions where their grammar is installed (extra `documents`)."""

from collections.abc import Mapping

from msgspec import Struct


class CodeLanguage(Struct, frozen=True, kw_only=True):
    """A language: its grammar, and which nodes of a syntax tree are definitions."""

    suffixes: tuple[str, ...]
    grammar: str
    """The module of its grammar, and the function in it, as `MODULE:NAME`."""
    definitions: frozenset[str]
    """What is a piece of its own."""
    containers: frozenset[str]
    """What has definitions inside, and is a piece of its own only if it is short."""


_SCRIPT = frozenset({"function_declaration", "generator_function_declaration", "method_definition"})
_SCRIPT_VALUES = frozenset({"lexical_declaration", "variable_declaration"})
_TYPES = frozenset({"interface_declaration", "type_alias_declaration", "enum_declaration"})
_SCRIPT_CONTAINERS = frozenset({"class_declaration", "abstract_class_declaration", "internal_module", "module"})

LANGUAGES: Mapping[str, CodeLanguage] = {
    "javascript": CodeLanguage(
        suffixes=(".js", ".jsx", ".mjs", ".cjs"),
        grammar="tree_sitter_javascript:language",
        definitions=_SCRIPT | _SCRIPT_VALUES,
        containers=_SCRIPT_CONTAINERS,
    ),
    "typescript": CodeLanguage(
        suffixes=(".ts", ".mts", ".cts"),
        grammar="tree_sitter_typescript:language_typescript",
        definitions=_SCRIPT | _SCRIPT_VALUES | _TYPES,
        containers=_SCRIPT_CONTAINERS,
    ),
    "tsx": CodeLanguage(
        suffixes=(".tsx",),
        grammar="tree_sitter_typescript:language_tsx",
        definitions=_SCRIPT | _SCRIPT_VALUES | _TYPES,
        containers=_SCRIPT_CONTAINERS,
    ),
    "go": CodeLanguage(
        suffixes=(".go",),
        grammar="tree_sitter_go:language",
        definitions=frozenset({"function_declaration", "method_declaration", "type_declaration"}),
        containers=frozenset(),
    ),
    "rust": CodeLanguage(
        suffixes=(".rs",),
        grammar="tree_sitter_rust:language",
        definitions=frozenset(
            {"function_item", "struct_item", "enum_item", "union_item", "macro_definition", "type_item"}
        ),
        containers=frozenset({"impl_item", "trait_item", "mod_item"}),
    ),
    "java": CodeLanguage(
        suffixes=(".java",),
        grammar="tree_sitter_java:language",
        definitions=frozenset({"method_declaration", "constructor_declaration", "annotation_type_declaration"}),
        containers=frozenset({"class_declaration", "interface_declaration", "enum_declaration", "record_declaration"}),
    ),
    "c": CodeLanguage(
        suffixes=(".c", ".h"),
        grammar="tree_sitter_c:language",
        definitions=frozenset(
            {"function_definition", "struct_specifier", "union_specifier", "enum_specifier", "type_definition"}
        ),
        containers=frozenset({"linkage_specification", "preproc_ifdef", "preproc_if"}),
    ),
}
