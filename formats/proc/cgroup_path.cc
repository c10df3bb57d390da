#include "formats/proc/cgroup_path.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "formats/base/text_fields.h"

namespace profd {
namespace {

constexpr std::size_t kIdDigits = 64;
constexpr std::string_view kKubepods = "kubepods";
// That of a pod is a UUID, or the hash of its file.
constexpr std::string_view kUidDigits = "0123456789abcdef-";
constexpr std::size_t kMaxPodUid = 64;

bool is_container_id(std::string_view text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Undoes the escapes in names of units: systemd writes '-' as "\x2d".
std::string unescaped(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    unsigned char byte = 0;
    const bool is_escape =
        text.size() >= 4 && text.starts_with("\\x") &&
        std::from_chars(text.data() + 2, text.data() + 4, byte, 16).ptr == text.data() + 4;
    plain += is_escape ? static_cast<char>(byte) : text.front();
    text.remove_prefix(is_escape ? 4 : 1);
  }
  return plain;
}

// The ID in "docker-ID.scope" (cgroup driver of systemd), "ID" (cgroupfs driver) and
// "...slice:cri-containerd:ID" (a name for the first driver that the second got); empty for others.
std::string_view container_id_of(std::string_view component) {
  constexpr std::array<std::string_view, 4> kRuntimes{"docker-", "libpod-", "cri-containerd-",
                                                      "crio-"};
  const std::size_t colon = component.rfind(':');
  const auto runtime =
      std::ranges::find_if(kRuntimes, [&](auto name) { return component.starts_with(name); });
  std::string_view id = component.substr(colon + 1);
  if (colon == component.npos && runtime != kRuntimes.end()) {
    id = without_suffix(component.substr(runtime->size()), ".scope");
  }
  return is_container_id(id) ? id : std::string_view{};
}

// Empty for a component that does not name a container.
std::string container_of(std::string_view component) {
  constexpr std::string_view kLxc = "lxc.payload.";
  constexpr std::string_view kMachine = "machine-";
  if (component.starts_with(kLxc)) return std::string(component.substr(kLxc.size()));
  if (component.starts_with(kMachine) && component.ends_with(".scope")) {
    return unescaped(without_suffix(component.substr(kMachine.size()), ".scope"));
  }
  return std::string(container_id_of(component));
}

// Not a container: "libpod-conmon-ID.scope", in which Podman runs the monitor of one. It counts as
// a unit.
bool is_unit(std::string_view component) {
  const std::size_t dot = component.rfind('.');
  return dot != component.npos && dot > 0 &&
         (component.ends_with(".service") || component.ends_with(".scope"));
}

bool is_user_manager(std::string_view component) {
  return component.starts_with("user@") && component.ends_with(".service");
}

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(component.size() + 1, path.size()));
    if (!component.empty()) components.push_back(component);
  }
  return components;
}

bool delegates(std::string_view component) {
  return is_user_manager(component) || !container_of(component).empty();
}

// The match of the first component for which `has_name` is true.
template <class HasName>
CgroupMatch match_component(std::string_view path, HasName has_name) {
  bool delegated = false;
  for (const std::string_view component : components_of(path)) {
    if (has_name(component)) return delegated ? CgroupMatch::kDelegated : CgroupMatch::kSystem;
    delegated = delegated || delegates(component);
  }
  return CgroupMatch::kNone;
}

// "UID" of "...kubepods...-podUID.slice" and, below a cgroup of Kubernetes, of "podUID"; empty for
// others.
std::string pod_uid_of(std::string_view component, bool is_below_kubepods) {
  constexpr std::string_view kPod = "pod";
  constexpr std::string_view kPodOfSlice = "-pod";
  constexpr std::string_view kSlice = ".slice";
  std::string uid;
  const std::size_t pod = component.rfind(kPodOfSlice);
  if (component.ends_with(kSlice)) {
    if (pod == component.npos || component.find(kKubepods) == component.npos) return {};
    uid = without_suffix(component.substr(pod + kPodOfSlice.size()), kSlice);
    std::ranges::replace(uid, '_', '-');
  } else if (is_below_kubepods && component.starts_with(kPod)) {
    uid = component.substr(kPod.size());
  }
  const bool is_uid = uid.size() <= kMaxPodUid && uid.find_first_not_of(kUidDigits) == uid.npos;
  return is_uid ? uid : std::string();
}

}  // namespace

CgroupOwner owner_of_cgroup(std::string_view path) {
  CgroupOwner owner;
  for (const std::string_view component : components_of(path)) {
    if (std::string container = container_of(component); !container.empty()) {
      owner.container = std::move(container);
    } else if (is_unit(component)) {
      owner.unit = std::string(component);
    }
  }
  return owner;
}

std::string pod_uid_of_cgroup(std::string_view path) {
  bool is_below_kubepods = false;
  for (const std::string_view component : components_of(path)) {
    if (std::string uid = pod_uid_of(component, is_below_kubepods); !uid.empty()) return uid;
    if (delegates(component)) return {};
    is_below_kubepods = is_below_kubepods || component.starts_with(kKubepods);
  }
  return {};
}

std::string full_unit_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kSuffixes{".service", ".scope", ".slice"};
  const bool is_full = name.empty() || std::ranges::any_of(kSuffixes, [name](auto suffix) {
                         return name.ends_with(suffix);
                       });
  return std::string(name) + (is_full ? "" : ".service");
}

CgroupMatch match_unit(std::string_view path, std::string_view unit) {
  return match_component(path, [unit](std::string_view component) { return component == unit; });
}

ContainerMatch match_container(std::string_view path, std::string_view name) {
  ContainerMatch found;
  found.match = match_component(path, [name, &found](std::string_view component) {
    const std::string container = container_of(component);
    const bool by_id = is_container_id(container) && !name.empty() && container.starts_with(name);
    if (!by_id && (container.empty() || container != name)) return false;
    found.container = container;
    return true;
  });
  return found;
}

bool delegates_names(std::string_view path) {
  return match_component(path, delegates) != CgroupMatch::kNone;
}

}  // namespace profd
