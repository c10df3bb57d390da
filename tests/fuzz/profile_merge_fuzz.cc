// Any profiles of one process: each frame keeps its file and its place in it.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/merge.h"
#include "tests/fuzz/require.h"

namespace {

using profd::Profile;
using profd::ProfileMapping;
using Place = std::pair<std::string, std::uint64_t>;
using Places = std::map<std::vector<Place>, std::uint64_t>;

constexpr std::uint64_t kPage = 4096;

// Where a page number lies: few places, so that they meet.
std::uint64_t base_of(std::uint8_t byte) {
  constexpr std::array<std::uint64_t, 4> kBases = {0x400000, 0x7f0000000000, std::uint64_t{1} << 53,
                                                   std::uint64_t{3} << 52};
  return kBases[byte >> 6] + (byte & 15) * kPage;
}

ProfileMapping mapping_of(std::uint8_t place, std::uint8_t shape) {
  constexpr std::array<const char*, 4> kPaths = {"/a.so", "/b.so", "[anon]", "/c.so"};
  const std::uint64_t start = base_of(place);
  return {start, start + (1 + (shape & 3)) * kPage, (shape >> 2 & 3) * kPage,
          kPaths[shape >> 4 & 3]};
}

// Three bytes each: the high bits of the first say whether it begins a profile, is one of its
// mappings or one of its stacks.
std::vector<Profile> profiles_of(std::string_view bytes) {
  std::vector<Profile> profiles(1);
  for (std::size_t i = 0; i + 3 <= bytes.size() && profiles.size() < 32; i += 3) {
    const auto kind = static_cast<std::uint8_t>(bytes[i]);
    const auto first = static_cast<std::uint8_t>(bytes[i + 1]);
    const auto second = static_cast<std::uint8_t>(bytes[i + 2]);
    if (kind < 64) profiles.emplace_back();
    profiles.back().period = 1;
    if (kind % 64 < 24) {
      profiles.back().mappings.push_back(mapping_of(first, second));
    } else {
      profiles.back().add_record(std::array{base_of(first) + 8, base_of(second) + 16},
                                 1 + kind % 3);
    }
  }
  return profiles;
}

Place place_of(const Profile& profile, std::uint64_t address) {
  for (const ProfileMapping& mapping : profile.mappings) {
    if (address < mapping.start || address >= mapping.end) continue;
    if (mapping.path == "[anon]") return {mapping.path, 0};
    return {mapping.path, address - mapping.start + mapping.file_offset};
  }
  return {};
}

void add_places(const Profile& profile, Places& places) {
  for (const Profile::Record& record : profile.records()) {
    const auto pcs = profile.pcs(record);
    places[{place_of(profile, pcs[0]), place_of(profile, pcs[1] - 1)}] += record.count;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  profd::ProfileMerge merge(7);
  Places expected;
  for (const Profile& profile : profiles_of({reinterpret_cast<const char*>(data), size})) {
    if (merge.add(profile)) add_places(profile, expected);
  }
  const Profile whole = merge.profile();
  Places found;
  add_places(whole, found);
  require(found == expected, "each frame keeps its file and its place");
  for (std::size_t i = 0; i < whole.mappings.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const ProfileMapping& a = whole.mappings[i];
      const ProfileMapping& b = whole.mappings[j];
      require(a.end <= b.start || b.end <= a.start, "no two mappings overlap");
    }
  }
  return 0;
}
