# Starts $script with the folder $bootstrap as /usr: Python, and what it starts, are where they look for themselves.
export HOME=/tmp PATH=/usr/bin
libraries=$bootstrap/lib/x86_64-linux-gnu

exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$bootstrap/bin/bwrap" --unshare-user \
  --ro-bind "$bootstrap" /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
  --bind /nix/store /nix/store --bind /build /build --bind /proc /proc --dev-bind /dev /dev --tmpfs /tmp \
  --chdir /build /usr/bin/python3.11 "$script" "$work" "$out"
