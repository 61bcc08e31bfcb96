# Runs bubblewrap of the tree $driver in nix's sandbox, with the arguments given, then hands nix the files of the build
# folder that $results names.
#
# The folder `build` becomes /build. Where the executor `nix` drives, it lies on the host, and so do the pipe `log`, for
# what the action says, and the file `status`, for how it ended. Without them nix has all that it needs.
busybox=$driver/bin/busybox libraries=$driver/lib/x86_64-linux-gnu

"$busybox" mkdir -p build
if [ -p log ]; then exec 4> log; else exec 4>&2; fi
"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$driver/bin/bwrap" "$@" 3> status >&4 2>&4 || failed=$?

# bubblewrap ends before the first process in its sandbox has. That one is a child of this shell then, which alone can
# account for what it used: an orphan that is left to the end of nix's sandbox counts for nobody.
while read -r orphans < "/proc/$$/task/$$/children" || [ "${orphans-}" ]; do "$busybox" sleep 0.01; done
[ -z "${failed-}" ] || exit "$failed"

IFS='
'
cd build
for result in $results; do [ -e "$result" ]; done
"$busybox" mkdir "$out"
for result in $results; do
  "$busybox" mkdir -p "$out/$("$busybox" dirname "$result")"
  "$busybox" cp -R "$result" "$out/$result"
done
