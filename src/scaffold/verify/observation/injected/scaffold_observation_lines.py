"""Mark statements: the first time that one is reached, a function is called with the number of its mark.

In a program that is text of a check (`python -c`), also note that a function of the change ends it with success.
"""

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
EXITS = "__scaffold_observation_exits__"
"""The name of the function that is called when an exception leaves a changed function."""
GUARD = """
try:
    pass
except:
    {}()
    raise
"""
CATCHES = frozenset(("SystemExit", "BaseException", "KeyboardInterrupt"))
"""Who uses one of these names may catch a SystemExit, as test runners do."""
TEXTS = ("<string>", "<stdin>")
"""The file names of programs that a check gives as text."""
ENDS = frozenset(
    ("SystemExit", "BaseException", "_exit", "abort", "kill", "fork", "execv", "execve", "execvp", "execl")
)
"""A program that uses one of these names expects that something ends it."""
LISTS = ("body", "orelse", "finalbody")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def marked_code(observer, loader, fullname, code):
    """Return the code of a file with marks, if its content equals a changed file's."""
    path = loader.get_filename(fullname)
    data = loader.get_data(path)
    real = os.path.realpath(path)
    # Copies of a changed file count as well; of several equal files each has its own marks.
    for _, numbers in sorted(observer.files[os.path.basename(path)], key=lambda each: each[0] != real):
        size, checksum, first, *lines = numbers
        # A loader that compiles in its own way would not see the marks, or would be disturbed by them.
        if (len(data), crc32(data)) == (size, checksum) and type(loader).source_to_code is SOURCE_TO_CODE:
            share(observer)
            marks = dict(zip(lines, range(first, first + len(lines))))
            code = with_marks(data, path, marks, guarded=hasattr(builtins, EXITS))
            observer.marked.add(real)
            return code
    return code


def share(observer):
    """Put what marked code uses where it finds it."""
    if hasattr(builtins, REACHED):
        return
    with open(os.path.join(observer.folder, MARKS), "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    reached = [0] * len(memory)

    def reach(mark):
        memory[mark] = reached[mark] = 1

    def exits():
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit) and not error.code and not may_be_caught(observer.marked):
            observer.note("notes", "exits {}".format(os.getpid()))

    text = main_code()
    if text is not None and text.co_filename in TEXTS and ENDS.isdisjoint(text.co_names):
        # Otherwise an unnoted end of this process would count as caused by something else.
        observer.note("notes", "text {}".format(os.getpid()))
        setattr(builtins, EXITS, exits)
    setattr(builtins, REACH, reach)
    setattr(builtins, REACHED, reached)


def main_code():
    """Return the code of the program itself; None in a thread."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code if frame.f_globals.get("__name__") == "__main__" else None


def may_be_caught(changed):
    """Return True if code outside of the change may catch an exception from here."""
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if os.path.realpath(code.co_filename) not in changed and not CATCHES.isdisjoint(code.co_names):
            return True
        frame = frame.f_back
    return False


def with_marks(data, path, marks, guarded):
    """Return the code of a source file with marks before the statements that begin in these lines: {line: mark}.

    `guarded`: with a note of each SystemExit that leaves a function with a mark.
    """
    with warnings.catch_warnings():
        # The compiler has given them already.
        warnings.simplefilter("ignore")
        tree = ast.parse(data, path)
        nodes = list(ast.walk(tree))
        functions = [node for node in nodes if guarded and isinstance(node, FUNCTIONS) and holds(node, marks)]
        for node in nodes:
            for name in LISTS:
                statements = getattr(node, name, None)
                if isinstance(statements, list):
                    setattr(node, name, list(marked(statements, marks)))
        for node in functions:
            guard(node)
        return compile(tree, path, "exec", dont_inherit=True)


def holds(function, marks):
    """Return True if a statement of the function gets a mark."""
    return any(getattr(node, "lineno", 0) in marks for each in function.body for node in ast.walk(each))


def guard(function):
    """Put the body of a function, after its docstring, into a `try`."""
    # Before 3.8 a docstring is part of the body all the same.
    after = int(ast.get_docstring(function, clean=False) is not None)
    kept, rest = function.body[:after], function.body[after:]
    if not rest:
        return
    (outer,) = ast.parse(GUARD.format(EXITS)).body
    for node in ast.walk(outer):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = rest[-1].lineno
            node.col_offset = node.end_col_offset = rest[-1].col_offset
    outer.body = rest
    function.body = [*kept, outer]


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
