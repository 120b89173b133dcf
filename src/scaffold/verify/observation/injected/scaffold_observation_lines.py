"""Mark statements: the first time that one is reached, a function is called with the number of its mark."""

import ast
import builtins
import mmap
import os
import sys
import warnings
from binascii import crc32

MARKS = "marks"
"""One byte per mark; processes share it as memory, so nothing is lost when one is killed."""
REACHED = "__scaffold_observation__"
"""The name, in `builtins`, of the list that says which marks this process has reached."""
REACH = "__scaffold_observation_reach__"
"""The name of the function that is called for one that it reaches for the first time."""
SOURCE_TO_CODE = sys.modules["_frozen_importlib_external"].SourceLoader.source_to_code
LISTS = ("body", "orelse", "finalbody")


def marked_code(observer, loader, fullname, code):
    """Return the code of a file with marks, if its content is that of a changed file."""
    path = loader.get_filename(fullname)
    data = loader.get_data(path)
    real = os.path.realpath(path)
    # Copies of a changed file count as well; of several equal files each has its own marks.
    for _, numbers in sorted(observer.files[os.path.basename(path)], key=lambda each: each[0] != real):
        size, checksum, first, *lines = numbers
        # A loader that compiles in its own way would not see the marks, or would be disturbed by them.
        if (len(data), crc32(data)) == (size, checksum) and type(loader).source_to_code is SOURCE_TO_CODE:
            share(observer.folder)
            code = with_marks(data, path, dict(zip(lines, range(first, first + len(lines)))))
            observer.marked.add(real)
            return code
    return code


def share(folder):
    """Put what marked code uses where it finds it."""
    if hasattr(builtins, REACHED):
        return
    with open(os.path.join(folder, MARKS), "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    reached = [0] * len(memory)

    def reach(mark):
        memory[mark] = reached[mark] = 1

    setattr(builtins, REACH, reach)
    setattr(builtins, REACHED, reached)


def with_marks(data, path, marks):
    """Return the code of a source file with marks before the statements that begin in these lines: {line: mark}."""
    with warnings.catch_warnings():
        # The compiler has given them already.
        warnings.simplefilter("ignore")
        tree = ast.parse(data, path)
        for node in list(ast.walk(tree)):
            for name in LISTS:
                statements = getattr(node, name, None)
                if isinstance(statements, list):
                    setattr(node, name, list(marked(statements, marks)))
        return compile(tree, path, "exec", dont_inherit=True)


def marked(statements, marks):
    """Yield the statements, each preceded by its mark if it has one."""
    for statement in statements:
        if statement.lineno in marks and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            # A look into a list is the cheapest there is: a mark in a loop is reached very often.
            (mark,) = ast.parse("{0}[{2}] or {1}({2})".format(REACHED, REACH, marks[statement.lineno])).body
            for node in ast.walk(mark):
                # On the line of the statement, so that line numbers and debuggers see nothing new.
                if hasattr(node, "lineno"):
                    node.lineno = node.end_lineno = statement.lineno
                    node.col_offset = node.end_col_offset = statement.col_offset
            yield mark
        yield statement
