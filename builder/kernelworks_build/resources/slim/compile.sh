# Compiles with slim headers, and where these do not do, with the whole ones; `OBJECT.headers` says which it was.
#
#   sh compile.sh FOLDER OBJECT TREE... -- MACRO... -- COMMAND...
#
# FOLDER is the word `-IFOLDER` of COMMAND that brings the slim headers. They do not do where a text in a TREE defines or
# undefines a MACRO, which decides a condition: the whole headers might read it, and the slim ones not.
folder=$1 object=$2
shift 2
log=$object.log trees='' macros=''
while [ "$1" != -- ]; do
  trees="$trees $1"  # where something is mounted: without blanks
  shift
done
shift
while [ "$1" != -- ]; do
  macros="$macros|$1"
  shift
done
shift

found=1
if [ "$macros" ]; then
  grep -rIqwE "#[[:space:]]*(define|undef)[[:space:]]+(${macros#|})" $trees
  found=$?
fi
if [ "$found" -gt 1 ]; then
  exit "$found"  # what could not be read is no verdict
fi

if [ "$found" = 1 ]; then
  "$@" > "$log" 2>&1
  code=$?
  if [ "$code" = 0 ]; then
    cat "$log"
    echo slim > "$object.headers"
    exit 0
  fi

  # What the system ended says nothing of the headers: an object must not depend on how much memory was free.
  ended='^Killed|signal terminated program|died due to signal|out of memory allocating|virtual memory exhausted'
  ended="$ended|Memory allocation failure|No space left on device|internal compiler error"
  if [ "$code" -gt 128 ] || grep -qE "$ended" "$log"; then
    cat "$log"
    exit "$code"
  fi
fi

for word; do
  shift
  [ "$word" = "-I$folder" ] || set -- "$@" "$word"
done
echo full > "$object.headers"
exec "$@"
