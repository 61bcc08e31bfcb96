# Makes the sysroot in /build from /src (stub sources and the files beside this one) with the host tree in /usr.
# $1: the folder of the host tree with include/ and lib/ of the C library's development files; $2: where actions mount
# the sysroot.

root=/build/usr
lib=$root/lib/x86_64-linux-gnu
cflags='-O2 -fPIC -ffunction-sections -fdata-sections -fvisibility=hidden -fno-asynchronous-unwind-tables'

mkdir -p /build/bin $lib
cp -r "$1/include" $root/
chmod -R u+w $root/include

# libstdc++ takes __libc_single_threaded (glibc 2.32) where this header exists.
rm $root/include/x86_64-linux-gnu/sys/single_threaded.h
# With -ffast-math this one sends loops to libmvec, which is on no manylinux list.
echo '#include <bits/libm-simd-decl-stubs.h>' >$root/include/x86_64-linux-gnu/bits/math-vector.h

for map in /src/*.map; do
  name=${map#/src/} soname=${name%.map}
  gcc-12 -shared -nostdlib -Wl,-soname,"$soname" -Wl,--version-script="$map" -Wl,--build-id=none \
    -o "$lib/$soname" "/src/$soname.s"
done
for name in libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
  ln -s $name "$lib/${name%.*}"
done
cp /src/libc.so /src/libstdc++.so /src/libgcc_s.so $lib/

cp "$1/lib/x86_64-linux-gnu/crti.o" "$1/lib/x86_64-linux-gnu/crtn.o" $lib/
gcc-12 $cflags --sysroot=/build -c /src/start.c -o $lib/crt1.o
ln -s crt1.o $lib/Scrt1.o
gcc-12 $cflags --sysroot=/build -c /src/compat.c -o /tmp/compat.o
ar rcD $lib/libc_nonshared.a /tmp/compat.o

for compiler in gcc g++; do
  cat >/build/bin/$compiler <<END
#!/bin/sh
exec /usr/bin/$compiler-12 --sysroot=$2 -B$2/usr/lib/x86_64-linux-gnu -L$2/usr/lib/x86_64-linux-gnu "\$@"
END
  chmod 755 /build/bin/$compiler
done
