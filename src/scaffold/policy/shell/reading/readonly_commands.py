"""Commands that only read, each with its allowed flags; any other flag needs approval."""

from collections.abc import Mapping

from scaffold.policy.shell.reading.flags import FlagSpec

_COMMON = "help version"
_GREP_LONG = (
    "extended-regexp fixed-strings basic-regexp perl-regexp regexp= file= ignore-case no-ignore-case invert-match "
    "word-regexp line-regexp count color[=] colour[=] files-without-match files-with-matches max-count= "
    "only-matching quiet silent no-messages byte-offset with-filename no-filename label= line-number initial-tab "
    "null after-context= before-context= context= text binary-files= exclude= exclude-from= exclude-dir= include= "
    "recursive line-buffered null-data help version"
)
_RG_LONG = (
    "regexp= file= ignore-case case-sensitive smart-case fixed-strings word-regexp line-regexp invert-match count "
    "count-matches color= colors= files files-with-matches files-without-match max-count= max-depth= max-filesize= "
    "only-matching quiet line-number no-line-number column no-column heading no-heading with-filename no-filename "
    "glob= iglob= type= type-not= type-list after-context= before-context= context= multiline multiline-dotall "
    "pcre2 sort= sortr= stats json vimgrep trim replace= null byte-offset no-messages crlf text one-file-system "
    "passthru max-columns= max-columns-preview context-separator= field-match-separator= path-separator= no-config "
    "threads= engine= encoding= no-follow help version"
)

_PART_OF_A_FILE = FlagSpec(
    short="qvz",
    valued="nc",
    long="bytes= lines= quiet silent verbose zero-terminated help version",
    texts="n c bytes lines",
    counts=True,
    any_glob=True,
)

READ_ONLY_COMMANDS: Mapping[str, FlagSpec] = {
    "ls": FlagSpec(
        short="aAbBcCdfFgGhHiIklmnNopqQrRsStuUvxXZ1",
        valued="ITw",
        long="all almost-all author escape block-size= ignore-backups color[=] directory dired classify[=] file-type "
        "format= full-time group-directories-first no-group human-readable si dereference-command-line hide= "
        "hyperlink[=] indicator-style= inode ignore= kibibytes numeric-uid-gid literal hide-control-chars "
        "show-control-chars quote-name quoting-style= reverse recursive size sort= time= time-style= tabsize= width= "
        "context zero help version",
        texts="I T w block-size format hide indicator-style ignore quoting-style sort time time-style tabsize width",
        names_only=True,
        any_glob=True,
    ),
    "cat": FlagSpec(
        short="AbeEnstTuv",
        long="show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting help version",
        any_glob=True,
    ),
    "tac": FlagSpec(short="b", long="before help version", any_glob=True),
    "head": _PART_OF_A_FILE,
    "tail": _PART_OF_A_FILE,
    "wc": FlagSpec(short="cmlLw", long="bytes chars lines max-line-length words total= help version", any_glob=True),
    "nl": FlagSpec(
        short="p",
        valued="bdfhilnsvw",
        long="body-numbering= header-numbering= footer-numbering= line-increment= number-format= number-separator= "
        "starting-line-number= number-width= help version",
        texts="b d f h i l n s v w",
        any_glob=True,
    ),
    "grep": FlagSpec(
        short="EFGPiyvwxcLlqsobHhnTZazrIU",
        valued="efmABCdD",
        long=_GREP_LONG,
        texts="e m A B C d D regexp max-count after-context before-context context label binary-files exclude "
        "exclude-dir include",
        text_first="e f regexp file",
        counts=True,
        any_glob=True,
    ),
    "rg": FlagSpec(
        short="isSFwxvcloqnNHIUP0abp",
        valued="efgtTABCmMdrjE",
        long=_RG_LONG,
        texts="e g t T A B C m M d r j E regexp glob iglob type type-not after-context before-context context "
        "max-count max-columns max-depth max-filesize replace sort sortr color colors engine encoding threads "
        "context-separator field-match-separator path-separator",
        text_first="e f regexp file files type-list",
    ),
    "sort": FlagSpec(
        short="bdfghiMnrRVcCmsuz",
        valued="kt",
        long="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort "
        "ignore-nonprinting month-sort numeric-sort random-sort version-sort reverse sort= check[=] key= merge "
        "stable field-separator= unique zero-terminated help version",
        texts="k t key field-separator sort check",
    ),
    "uniq": FlagSpec(
        short="cdDiuz",
        valued="fsw",
        long="count repeated unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated help version",
        texts="f s w skip-fields skip-chars check-chars",
        most=1,
        permutes=False,
    ),
    "cut": FlagSpec(
        short="nsz",
        valued="bcdf",
        long="bytes= characters= delimiter= fields= only-delimited complement output-delimiter= zero-terminated "
        "help version",
        texts="b c d f bytes characters delimiter fields output-delimiter",
        any_glob=True,
    ),
    "tr": FlagSpec(
        short="cCdst", long="complement delete squeeze-repeats truncate-set1 help version", no_paths=True
    ),
    "paste": FlagSpec(
        short="sz", valued="d", long="delimiters= serial zero-terminated help version", texts="d delimiters"
    ),
    "comm": FlagSpec(short="123z", long="check-order nocheck-order output-delimiter= total help version"),
    "join": FlagSpec(short="iz", valued="aevoj12t", texts="a e v o j 1 2 t", long="header help version"),
    "rev": FlagSpec(long=_COMMON, any_glob=True),
    "fold": FlagSpec(short="bs", valued="w", long="bytes spaces width= help version", texts="w width"),
    "expand": FlagSpec(short="i", valued="t", long="tabs= initial help version", texts="t tabs"),
    "column": FlagSpec(short="t", valued="sco", long="table separator= output-separator=", texts="s c o separator"),
    "diff": FlagSpec(
        short="abBcdeEinpqrsuwyNtTZ",
        valued="CUWFxI",
        long="brief report-identical-files unified[=] context[=] side-by-side width= recursive new-file "
        "unidirectional-new-file ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change "
        "ignore-all-space ignore-blank-lines ignore-matching-lines= text minimal color[=] exclude= label= "
        "suppress-common-lines no-dereference strip-trailing-cr show-c-function normal ed rcs help version",
        texts="C U W F x I width exclude label ignore-matching-lines",
        any_glob=True,
    ),
    "cmp": FlagSpec(
        short="bls",
        valued="in",
        long="print-bytes verbose silent quiet bytes= ignore-initial= help version",
        texts="i n bytes ignore-initial",
    ),
    "du": FlagSpec(
        short="0abcDhHkmPsSx",
        valued="Bdt",
        long="all apparent-size block-size= bytes total max-depth= human-readable inodes si summarize threshold= "
        "exclude= one-file-system null help version",
        texts="B d t block-size max-depth threshold exclude",
        names_only=True,
        any_glob=True,
    ),
    "df": FlagSpec(
        short="ahHiklPT", long="all human-readable inodes local portability print-type total", names_only=True
    ),
    "stat": FlagSpec(
        short="fLt",
        valued="c",
        long="dereference file-system format= printf= terse help version",
        texts="c format printf",
        names_only=True,
        any_glob=True,
    ),
    "file": FlagSpec(short="bhikLNnrv0", long="brief mime mime-type mime-encoding help version", names_only=True),
    "tree": FlagSpec(
        short="adfxFpsughDirtUcvCnAhJXN",
        valued="LIP",
        long="dirsfirst filelimit= noreport prune du si inodes device sort= help version",
        texts="L I P filelimit sort",
        names_only=True,
        clustered=False,
    ),
    "basename": FlagSpec(short="az", valued="s", long="multiple suffix= zero", texts="s suffix", no_paths=True),
    "dirname": FlagSpec(short="z", long="zero help version", no_paths=True),
    "realpath": FlagSpec(
        short="emLPqsz",
        long="canonicalize-existing canonicalize-missing logical physical quiet no-symlinks relative-to= "
        "relative-base= zero help version",
        names_only=True,
    ),
    "readlink": FlagSpec(
        short="femnqsvz",
        long="canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero",
        names_only=True,
    ),
    "base64": FlagSpec(
        short="di", valued="w", long="decode ignore-garbage wrap= help version", texts="w wrap", any_glob=True
    ),
    "cksum": FlagSpec(short="", long=_COMMON),
    "md5sum": FlagSpec(short="btz", long="binary text tag zero help version"),
    "sha1sum": FlagSpec(short="btz", long="binary text tag zero help version"),
    "sha256sum": FlagSpec(short="btz", long="binary text tag zero help version"),
    "sha512sum": FlagSpec(short="btz", long="binary text tag zero help version"),
    "od": FlagSpec(short="abcdfiloxv", valued="AjNt", attached="w", texts="A j N t w"),
    "hexdump": FlagSpec(short="bcCdovx", valued="ns", texts="n s"),
    "xxd": FlagSpec(short="abeipu", valued="cgls", texts="c g l s", most=1, clustered=False, permutes=False),
    "pwd": FlagSpec(short="LP", most=0),
    "id": FlagSpec(short="agGnruzZ", long="group groups name real user zero help version", no_paths=True),
    "whoami": FlagSpec(long=_COMMON, most=0),
    "groups": FlagSpec(long=_COMMON, most=1, no_paths=True),
    "uname": FlagSpec(
        short="asnrvmpio",
        long="all kernel-name nodename kernel-release kernel-version machine processor operating-system help version",
        most=0,
    ),
    "nproc": FlagSpec(long="all help version", most=0),
    "arch": FlagSpec(long=_COMMON, most=0),
    "uptime": FlagSpec(short="ps", long="pretty since help version", most=0),
    "free": FlagSpec(short="bkmghlt", long="bytes kibi mebi gibi human total help version", most=0),
    "tty": FlagSpec(short="s", most=0),
    "true": FlagSpec(no_paths=True, any_glob=True),
    "false": FlagSpec(no_paths=True, any_glob=True),
    ":": FlagSpec(no_paths=True, any_glob=True),
    "which": FlagSpec(short="a", no_paths=True),
    "type": FlagSpec(short="aftpP", no_paths=True),
    "seq": FlagSpec(short="w", valued="s", long="equal-width separator=", texts="s separator", no_paths=True),
    "expr": FlagSpec(no_paths=True),
}  # fmt: skip
"""Command name -> flags. The name has no directory: `./ls` is another program."""

VERSION_PROGRAMS = frozenset({
    *("bash", "clang", "cmake", "curl", "docker", "g++", "gcc", "git", "jq", "make", "mypy", "node", "npm", "pip"),
    *("pip3", "python", "python3", "rg", "ruff", "sed", "tar", "uv"),
})  # fmt: skip
"""Programs whose `--version` is read-only: they read no repository files before they print it."""
