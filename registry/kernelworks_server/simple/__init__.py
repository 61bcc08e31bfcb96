"""The registry as package indexes that pip and uv install kernels from (PEP 503, 658, 691, 700 and 714).

There is one index per flavour, which is a minor version of torch and a backend with its toolkit::

    /simple/torch213-cu130/                  every kernel whose name is not that of another kernel too
    /simple/torch213-cu130/relu/             its wheels for torch 2.13 and CUDA 13.0
    /simple/torch213-cu130/@acme/            the kernels of one owner
    /simple/torch213-cu130/@acme/relu/       theirs, whoever else has a `relu`
    /simple/files/acme/relu/<commit>/...     a wheel, with byte ranges; its core metadata at `<wheel>.metadata`

A project is a kernel's repository, under its name without the owner. Of several kernels with one name none is in the
index of all owners: which of them somebody gets must not depend on who published last. A kernel may also be called
like any other package: where strangers may publish, give pip the index of an owner, and as its only one. No owner
begins with `@`, and no flavour is called `files`.

Each version (branch `v1`, `v2`, ...) offers, per platform and Python, the one wheel that the loader would take; that a
wheel fits is decided by the loader's rules. A file is offered where the version's index names it, its bytes are those
that the index proves, and it is a wheel of this project. Those of a yanked commit are marked as yanked (PEP 592).

The name of a package stands in its wheel, which nobody can change. When a kernel gets another name, its wheels from
before are in no index any more: the project has the new name, and wheels once they are published under it. What a lock
file has the address of is still found.

Who shows no token sees public kernels. A token comes as `Bearer`, or as the password of `Basic`, which is how pip and
uv send that of `http://user:token@host/simple/...`. What a token does not open is not there.
"""
