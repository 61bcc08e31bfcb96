# A shell with the programs that this one and its tests start: `nix-shell nix/shell.nix`. It alone needs nixpkgs, so it
# was evaluated with a stand-in for that, and never entered.
{
  pkgs ? import <nixpkgs> { },
}:
pkgs.mkShell {
  packages = [
    pkgs.bubblewrap
    pkgs.git
    pkgs.nix
    pkgs.python311
  ];
}
