{
  # One package, built by the shell alone: it needs no network and no other flake.
  description = "What the scenario's coder asks for";

  outputs = { self }:
    let
      packages = system: {
        count = derivation {
          name = "count";
          inherit system;
          builder = "/bin/sh";
          PATH = "/usr/bin:/bin";
          program = ''
            #!/bin/sh
            # Prints the numbers from 1 to $1.
            number=1
            while [ "$number" -le "''${1:?count N}" ]; do
              echo "$number"
              number=$((number + 1))
            done
          '';
          args = [ "-c" "mkdir -p $out/bin; printf '%s' \"$program\" > $out/bin/count; chmod 755 $out/bin/count" ];
        };
      };
    in
    {
      packages.x86_64-linux = packages "x86_64-linux";
      packages.aarch64-linux = packages "aarch64-linux";
    };
}
