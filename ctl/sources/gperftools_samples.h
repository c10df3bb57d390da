// The samples of a gperftools profile: addresses, which get the names that the mapped files have.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ctl/sources/code_names.h"
#include "ctl/views/samples.h"
#include "formats/base/result.h"
#include "formats/profile/profile.h"

namespace profd {

// What is known of the process of a profile, from other files.
struct ProfileOwner {
  std::uint32_t pid = 0;
  std::string comm{};
  std::string unit{};
  std::string container{};
  std::string runtime{};  // as in labels: "nodejs"
};

// The names of addresses in a mapping; empty where its file cannot be read.
using NameAddresses = std::function<std::vector<NamedAddress>(
    const ProfileMapping& mapping, std::span<const std::uint64_t> addresses)>;

// Adds the samples of `profile`. `period_ns`: the CPU time of one; 0: they count events.
void add_gperftools(const Profile& profile, std::int64_t period_ns, const ProfileOwner& owner,
                    const NameAddresses& name_addresses, Samples& to);

}  // namespace profd
