// Any path of a cgroup: whoever makes one chooses its name.

#include <cstdint>
#include <string_view>

#include "formats/cgroup_path.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto owner = profd::owner_of_cgroup({reinterpret_cast<const char*>(data), size});
  if (owner.container) require(owner.container->size() == 64, "a container's id has 64 digits");
  if (owner.unit) {
    require(owner.unit->find('/') == owner.unit->npos, "a unit is one component");
    require(owner.unit->size() <= size, "a unit is no longer than the path");
  }
  return 0;
}
