#include "formats/cgroup_path.h"

#include <algorithm>
#include <array>

namespace profd {
namespace {

constexpr std::size_t kIdDigits = 64;

bool is_container_id(std::string_view text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

// The ID of "docker-ID.scope" (systemd's cgroup driver), "ID" (the cgroupfs driver) and
// "...slice:cri-containerd:ID" (the first's name given to the second); empty for what is no
// container.
std::string_view container_of(std::string_view component) {
  constexpr std::array<std::string_view, 4> kRuntimes{"docker-", "libpod-", "cri-containerd-",
                                                      "crio-"};
  if (is_container_id(component)) return component;
  if (const std::size_t colon = component.rfind(':'); colon != component.npos) {
    const std::string_view id = component.substr(colon + 1);
    return is_container_id(id) ? id : std::string_view{};
  }
  const auto runtime =
      std::ranges::find_if(kRuntimes, [&](auto name) { return component.starts_with(name); });
  if (runtime == kRuntimes.end()) return {};
  const std::string_view id = without_suffix(component.substr(runtime->size()), ".scope");
  return is_container_id(id) ? id : std::string_view{};
}

// Podman runs its monitor in "libpod-conmon-ID.scope", beside the container: that is a unit.
bool is_unit(std::string_view component) {
  const std::size_t dot = component.rfind('.');
  return dot != component.npos && dot > 0 &&
         (component.ends_with(".service") || component.ends_with(".scope"));
}

}  // namespace

CgroupOwner owner_of_cgroup(std::string_view path) {
  CgroupOwner owner;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view component = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (const std::string_view id = container_of(component); !id.empty()) {
      owner.container = std::string(id);
    } else if (is_unit(component)) {
      owner.unit = std::string(component);
    }
  }
  return owner;
}

}  // namespace profd
