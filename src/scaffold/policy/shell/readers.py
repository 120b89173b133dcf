"""Commands that only read, each with the flags that keep it so; every other flag is asked about."""

from collections.abc import Mapping

from scaffold.policy.shell.flags import Flags

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

READERS: Mapping[str, Flags] = {
    "ls": Flags(
        short="aAbBcCdfFgGhHiIklLmnNopqQrRsStuUvxXZ1",
        valued="ITw",
        long="all almost-all author escape block-size= ignore-backups color[=] directory dired classify[=] file-type "
        "format= full-time group-directories-first no-group human-readable si dereference-command-line hide= "
        "hyperlink[=] indicator-style= inode ignore= kibibytes dereference numeric-uid-gid literal hide-control-chars "
        "show-control-chars quote-name quoting-style= reverse recursive size sort= time= time-style= tabsize= width= "
        "context zero help version",
        texts="I T w block-size format hide indicator-style ignore quoting-style sort time time-style tabsize width",
        names_only=True,
        any_glob=True,
    ),
    "cat": Flags(
        short="AbeEnstTuv",
        long="show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting help version",
        any_glob=True,
    ),
    "tac": Flags(short="b", long="before help version", any_glob=True),
    "head": Flags(
        short="qvz",
        valued="nc",
        long="bytes= lines= quiet silent verbose zero-terminated help version",
        texts="n c bytes lines",
        counts=True,
        any_glob=True,
    ),
    "tail": Flags(
        short="qvz",
        valued="nc",
        long="bytes= lines= quiet silent verbose zero-terminated help version",
        texts="n c bytes lines",
        counts=True,
        any_glob=True,
    ),
    "wc": Flags(short="cmlLw", long="bytes chars lines max-line-length words total= help version", any_glob=True),
    "nl": Flags(
        short="p",
        valued="bdfhilnsvw",
        long="body-numbering= header-numbering= footer-numbering= line-increment= number-format= number-separator= "
        "starting-line-number= number-width= help version",
        texts="b d f h i l n s v w",
        any_glob=True,
    ),
    "grep": Flags(
        short="EFGPiyvwxcLlqsobHhnTZazrIU",
        valued="efmABCdD",
        long=_GREP_LONG,
        texts="e m A B C d D regexp max-count after-context before-context context label binary-files exclude "
        "exclude-dir include",
        text_first="e f regexp file",
        counts=True,
        any_glob=True,
    ),
    "rg": Flags(
        short="isSFwxvcloqnNHIUP0abp",
        valued="efgtTABCmMdrjE",
        long=_RG_LONG,
        texts="e g t T A B C m M d r j E regexp glob iglob type type-not after-context before-context context "
        "max-count max-columns max-depth max-filesize replace sort sortr color colors engine encoding threads "
        "context-separator field-match-separator path-separator",
        text_first="e f regexp file files type-list",
    ),
    "sort": Flags(
        short="bdfghiMnrRVcCmsuz",
        valued="kt",
        long="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort "
        "ignore-nonprinting month-sort numeric-sort random-sort version-sort reverse sort= check[=] key= merge "
        "stable field-separator= unique zero-terminated help version",
        texts="k t key field-separator sort check",
    ),
    "uniq": Flags(
        short="cdDiuz",
        valued="fsw",
        long="count repeated unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated help version",
        texts="f s w skip-fields skip-chars check-chars",
        most=1,
    ),
    "cut": Flags(
        short="nsz",
        valued="bcdf",
        long="bytes= characters= delimiter= fields= only-delimited complement output-delimiter= zero-terminated "
        "help version",
        texts="b c d f bytes characters delimiter fields output-delimiter",
        any_glob=True,
    ),
    "tr": Flags(
        short="cCdst", long="complement delete squeeze-repeats truncate-set1 help version", no_paths=True
    ),
    "paste": Flags(
        short="sz", valued="d", long="delimiters= serial zero-terminated help version", texts="d delimiters"
    ),
    "comm": Flags(short="123z", long="check-order nocheck-order output-delimiter= total help version"),
    "join": Flags(short="iz", valued="aevoj12t", texts="a e v o j 1 2 t", long="header help version"),
    "rev": Flags(long=_COMMON, any_glob=True),
    "fold": Flags(short="bs", valued="w", long="bytes spaces width= help version", texts="w width"),
    "expand": Flags(short="i", valued="t", long="tabs= initial help version", texts="t tabs"),
    "column": Flags(short="t", valued="sco", long="table separator= output-separator=", texts="s c o separator"),
    "diff": Flags(
        short="abBcdeEinpqrsuwyNtTZ",
        valued="CUWFxI",
        long="brief report-identical-files unified[=] context[=] side-by-side width= recursive new-file "
        "unidirectional-new-file ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change "
        "ignore-all-space ignore-blank-lines ignore-matching-lines= text minimal color[=] exclude= label= "
        "suppress-common-lines no-dereference strip-trailing-cr show-c-function normal ed rcs help version",
        texts="C U W F x I width exclude label ignore-matching-lines",
        any_glob=True,
    ),
    "cmp": Flags(
        short="bls",
        valued="in",
        long="print-bytes verbose silent quiet bytes= ignore-initial= help version",
        texts="i n bytes ignore-initial",
    ),
    "du": Flags(
        short="0abcDhHkLmPsSx",
        valued="Bdt",
        long="all apparent-size block-size= bytes total max-depth= human-readable inodes si summarize threshold= "
        "exclude= one-file-system null help version",
        texts="B d t block-size max-depth threshold exclude",
        names_only=True,
        any_glob=True,
    ),
    "df": Flags(short="ahHiklPT", long="all human-readable inodes local portability print-type total", names_only=True),
    "stat": Flags(
        short="fLt",
        valued="c",
        long="dereference file-system format= printf= terse help version",
        texts="c format printf",
        names_only=True,
        any_glob=True,
    ),
    "file": Flags(short="bhikLNnprv0", long="brief mime mime-type mime-encoding help version", names_only=True),
    "tree": Flags(
        short="adflxFpsughDirtUcvCnAhJXN",
        valued="LIP",
        long="dirsfirst filelimit= noreport gitignore prune du si inodes device sort= help version",
        texts="L I P filelimit sort",
        names_only=True,
    ),
    "basename": Flags(short="az", valued="s", long="multiple suffix= zero", texts="s suffix", no_paths=True),
    "dirname": Flags(short="z", long="zero help version", no_paths=True),
    "realpath": Flags(
        short="emLPqsz",
        long="canonicalize-existing canonicalize-missing logical physical quiet no-symlinks relative-to= "
        "relative-base= zero help version",
        names_only=True,
    ),
    "readlink": Flags(
        short="femnqsvz",
        long="canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero",
        names_only=True,
    ),
    "base64": Flags(
        short="di", valued="w", long="decode ignore-garbage wrap= help version", texts="w wrap", any_glob=True
    ),
    "cksum": Flags(short="", long=_COMMON),
    "md5sum": Flags(short="btz", long="binary text tag zero help version"),
    "sha1sum": Flags(short="btz", long="binary text tag zero help version"),
    "sha256sum": Flags(short="btz", long="binary text tag zero help version"),
    "sha512sum": Flags(short="btz", long="binary text tag zero help version"),
    "od": Flags(short="abcdfiloxv", valued="AjNtw", texts="A j N t w"),
    "hexdump": Flags(short="bcCdovx", valued="ns", texts="n s"),
    "xxd": Flags(short="abeipu", valued="cgls", texts="c g l s", most=1),
    "strings": Flags(short="af", valued="ntes", long="all", texts="n t e s"),
    "pwd": Flags(short="LP", most=0),
    "id": Flags(short="agGnruzZ", long="group groups name real user zero help version", no_paths=True),
    "whoami": Flags(long=_COMMON, most=0),
    "groups": Flags(long=_COMMON, most=1, no_paths=True),
    "uname": Flags(
        short="asnrvmpio",
        long="all kernel-name nodename kernel-release kernel-version machine processor operating-system help version",
        most=0,
    ),
    "nproc": Flags(long="all help version", most=0),
    "arch": Flags(long=_COMMON, most=0),
    "uptime": Flags(short="ps", long="pretty since help version", most=0),
    "free": Flags(short="bkmghlt", long="bytes kibi mebi gibi human total help version", most=0),
    "tty": Flags(short="s", most=0),
    "true": Flags(no_paths=True, any_glob=True),
    "false": Flags(no_paths=True, any_glob=True),
    ":": Flags(no_paths=True, any_glob=True),
    "which": Flags(short="a", no_paths=True),
    "type": Flags(short="aftpP", no_paths=True),
    "seq": Flags(short="w", valued="s", long="equal-width separator=", texts="s separator", no_paths=True),
    "expr": Flags(no_paths=True),
}  # fmt: skip
"""By name, without a directory before it: `./ls` is another program."""

VERSIONS = frozenset({
    *("bash", "clang", "cmake", "curl", "docker", "g++", "gcc", "git", "jq", "make", "mypy", "node", "npm", "pip"),
    *("pip3", "python", "python3", "rg", "ruff", "sed", "tar", "uv"),
})  # fmt: skip
"""Programs that may be asked for their version: those that look into no repository before they tell it."""
