"""Scripts by which bash and zsh complete commands, flags and their values.

A script has all of them as text, so completing starts no Python.
"""

from collections.abc import Iterator, Mapping

from tf_transfer.config.command_line import list_flags
from tf_transfer.config.fields import Fields

# Bash splits a word such as `--lr=1` at `=`, and replaces what is behind it.
BASH = """\
_tf_transfer() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" command="${{COMP_WORDS[1]}}"
    local word="${{line##* }}" before="" words
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        words="{commands}"
    elif [[ $word == --*=* ]]; then
        [[ $COMP_WORDBREAKS == *=* ]] || before="${{word%%=*}}="
        case "$command ${{word%%=*}}" in
{values}
            *)
                compopt -o filenames
                COMPREPLY=($(compgen -P "$before" -f -- "${{word#*=}}"))
                return ;;
        esac
        word="${{word#*=}}"
    elif [[ -z $word || $word == -* ]]; then
        case "$command" in
{flags}
        esac
    fi
    COMPREPLY=($(compgen -P "$before" -W "$words" -- "$word"))
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
}}
complete -o default -F _tf_transfer tf-transfer
"""
ZSH = """\
#compdef tf-transfer
_tf_transfer() {{
    local flag="${{words[CURRENT]%%=*}}"
    if (( CURRENT == 2 )); then
        compadd {commands}
    elif [[ $words[CURRENT] == --*=* ]]; then
        compset -P '*='
        case "$words[2] $flag" in
{values}
            *) _files ;;
        esac
    elif [[ -z $flag || $flag == -* ]]; then
        case "$words[2]" in
{flags}
        esac
    else
        _files
    fi
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _tf_transfer "$@"
else
    compdef _tf_transfer tf-transfer
fi
"""
SHELLS = ("bash", "zsh")


def make_script(shell: str, commands: Mapping[str, type[Fields]]) -> str:
    """The script of a shell.

    Args:
        shell: One of `SHELLS`.
        commands: The settings of each command, by name.
    """
    template, add = (BASH, 'words="{}"') if shell == "bash" else (ZSH, "{}")
    values, flags = [], []
    for name, cls in commands.items():
        for field in list_flags(cls):
            if field.metadata["choices"]:
                choices = " ".join(field.metadata["choices"])
                if shell == "zsh":
                    choices = f"compadd {choices}"
                case = f'"{name} --{field.name}"'
                values.append(f"{' ' * 12}{case}) {add.format(choices)} ;;")
        switches, valued = [*_list_switches(cls)], [*_list_valued(cls)]
        if shell == "bash":
            words = " ".join([*(f"{flag}=" for flag in valued), *switches])
        else:
            words = (
                f"compadd -S '=' -- {' '.join(valued)}; "
                f"compadd -- {' '.join(switches)}"
            )
        flags.append(f"{' ' * 12}{name}) {add.format(words)} ;;")
    return template.format(
        commands=" ".join(commands),
        values="\n".join(values),
        flags="\n".join(flags),
    )


def _list_valued(cls: type[Fields]) -> Iterator[str]:
    """The flags with a value."""
    yield "--flagfile"
    for field in list_flags(cls):
        if field.type is not bool:
            yield f"--{field.name}"


def _list_switches(cls: type[Fields]) -> Iterator[str]:
    """The flags without a value."""
    yield "--help"
    for field in list_flags(cls):
        if field.type is bool:
            yield f"--{field.name}"
            yield f"--no{field.name}"
