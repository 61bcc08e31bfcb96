# Puts the packages together that are its arguments: debs by their content, wheels where Python looks.
"$busybox/bin/busybox" mkdir links
for applet in cp mkdir rm dpkg-deb unzip; do "$busybox/bin/busybox" ln -s "$busybox/bin/busybox" "links/$applet"; done
PATH=$PWD/links

mkdir -p "$out/lib/python3.11"
for package; do
  case $package in
  *.whl) unzip -qo "$package" -d "$out/lib/python3.11" ;;
  *.deb)
    dpkg-deb -x "$package" deb
    for part in bin lib lib64 sbin; do # of a system whose /usr holds them
      if [ -d "deb/$part" ]; then
        mkdir -p "deb/usr/$part"
        cp -a "deb/$part/." "deb/usr/$part"
      fi
    done
    cp -a deb/usr/. "$out"
    rm -r deb
    ;;
  esac
done
rm "$out/lib/python3.11/sitecustomize.py" # leads out of the tree
