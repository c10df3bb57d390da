// Writes the merged profile of a day of a host with 100 processes, for the benches in Python.
//
//     day_profile_maker STACKS FILE.pb.gz

#include <cstddef>
#include <cstdlib>
#include <fstream>

#include "formats/profile/pprof_writer.h"
#include "tests/bench/synthetic_host.h"

int main(int argc, char** argv) {
  using profd::bench::Host;
  if (argc != 3) return 2;
  const std::size_t stacks = std::strtoul(argv[1], nullptr, 10);
  std::ofstream file(argv[2], std::ios::binary);
  file << profd::encode_pprof_gzip(Host(stacks, Host::day()).window(stacks));
  file.close();
  return file ? 0 : 1;
}
