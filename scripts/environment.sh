# Sourced by the other scripts: a virtual environment in .venv (or $PACORE_VENV), made and filled once.
environment=${PACORE_VENV:-$root/.venv}

# prepare_environment EXTRAS: install pacore with these extras, unless that was done since
# pyproject.toml changed.
prepare_environment() {
    python=${PYTHON:-python3}
    stamp=$environment/.pacore-$(echo "$1" | tr , -)
    if [ -f "$stamp" ] && cmp -s "$stamp" "$root/pyproject.toml" &&
        "$environment/bin/python" -c 'import pacore' 2>/dev/null; then
        return
    fi
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "pacore needs Python 3.11 or later; '$python' is not. Set PYTHON to one that is." >&2
        exit 1
    fi
    echo "preparing an environment in $environment (once)" >&2
    # An environment that was half made, or moved with its folder, is made anew.
    if [ "$environment" = "$root/.venv" ] && [ -f "$environment/pyvenv.cfg" ] &&
        ! "$environment/bin/pip" --version >/dev/null 2>&1; then
        rm -rf "$environment"
    fi
    if [ ! -x "$environment/bin/python" ] && ! "$python" -m venv "$environment" >&2; then
        echo "'$python -m venv' does not work; on Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    fi
    case ",$1," in
    *,all,* | *,train,*)
        # The version that is tested; a build for the processor alone where pip knows of one.
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "torch==2.13.0" >&2
        ;;
    esac
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
        --editable "$root[$1]" >&2
    cp "$root/pyproject.toml" "$stamp"
}
