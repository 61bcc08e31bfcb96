# A kernel as `kernel-build export` wrote it; see nix/default.nix for what can be built, and with what arguments.
{ ... }@arguments: import ./nix ({ exported = ./.; } // arguments)
