// Any path of a cgroup: a user who makes a cgroup chooses its name.

#include <cstdint>
#include <string_view>

#include "formats/proc/cgroup_path.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view path(reinterpret_cast<const char*>(data), size);
  const auto owner = profd::owner_of_cgroup(path);
  if (owner.container) {
    require(!owner.container->empty(), "a container has an id or a name");
    require(owner.container->size() <= size, "it is no longer than the path");
    const auto match = profd::match_container(path, *owner.container);
    require(match.match != profd::CgroupMatch::kNone, "it answers to its own");
  }
  if (owner.unit) {
    require(owner.unit->find('/') == owner.unit->npos, "a unit is one component");
    require(owner.unit->size() <= size, "a unit is no longer than the path");
    require(profd::match_unit(path, *owner.unit) != profd::CgroupMatch::kNone,
            "a unit answers to its own name");
  }
  return 0;
}
