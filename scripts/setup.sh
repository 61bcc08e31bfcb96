#!/bin/sh
# Sets up $VENV (.venv) with the project and what it is tested with, and bubblewrap where the system's package manager may be
# used; says exactly what to run where it may not. Running it again costs nothing.
set -eu

python=${PYTHON:-python3}
torch=${TORCH-torch==2.13.0}
venv=${VENV:-.venv}
apt="apt-get -o Acquire::Retries=3"

say() { printf '%s\n' "setup: $*" >&2; }

# as_root COMMAND...: run it as root when that needs no password, else fail
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

# install PACKAGE: by the package manager of this system, or say the command and fail
install() {
  if command -v apt-get >/dev/null; then command="$apt install -y $1"
  elif command -v dnf >/dev/null; then command="dnf install -y $1"
  elif command -v pacman >/dev/null; then command="pacman -S --noconfirm $1"
  elif command -v zypper >/dev/null; then command="zypper install -y $1"
  else say "please install $1 with your system's package manager, then run this again"; exit 1
  fi
  say "$command"
  # shellcheck disable=SC2086  # the command is words
  { ! command -v apt-get >/dev/null || as_root $apt update -q; } >&2 && as_root $command >&2 || {
    say "$1 is missing and could not be installed from here; please run: sudo $command"
    exit 1
  }
}

command -v bwrap >/dev/null || install bubblewrap

# Compilers come from Debian's archive. Where apt knows of none, this package of Ubuntu's says where it is.
if command -v apt-get >/dev/null && [ -z "${KERNELWORKS_DEB_MIRROR:-}" ] &&
  [ ! -e /usr/share/python-apt/templates/Debian.info ] &&
  ! apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' | grep -qi debian
then install python-apt-common; fi

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  say "creating $venv"
  "$python" -m venv "$venv" 2>/dev/null || { rm -rf "$venv"; install python3-venv; "$python" -m venv "$venv"; }
fi

# pip shows its progress on a terminal and only its errors elsewhere; what was cut in the middle is fetched once more
pip() {
  [ -t 2 ] || set -- -qq "$@"
  "$venv/bin/python" -m pip install "$@" || { say "trying again"; "$venv/bin/python" -m pip install "$@"; }
}

wanted="$torch $(cksum pyproject.toml)"
if [ "$(cat "$venv/ready" 2>/dev/null || true)" != "$wanted" ]; then
  say "installing ${torch:-no torch} and the project into $venv; the first time takes a minute or two"
  if [ -n "$torch" ]; then pip "$torch"; fi
  pip --editable '.[build,server,dev]'
  printf '%s\n' "$wanted" > "$venv/ready"
fi
