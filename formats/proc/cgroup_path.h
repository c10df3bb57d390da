// Who a process belongs to, read from its cgroup path: systemd unit and container.
//
// Units: the innermost "*.service", "*.scope" (no container's), "*.slice"-less component as systemd
// escapes it. Containers: docker-ID.scope, libpod-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
// /docker/ID, /kubepods/.../ID, where ID is 64 hexadecimal digits, shown in full; and by name,
// since they have no other, machine-NAME.scope (systemd-nspawn) and lxc.payload.NAME. The paths of
// v1 and v2 hierarchies look alike.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace profd {

struct CgroupOwner {
  std::optional<std::string> unit;
  std::optional<std::string> container;

  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

[[nodiscard]] CgroupOwner owner_of_cgroup(std::string_view path);

// A unit's name as systemctl takes it: "nginx" is "nginx.service".
[[nodiscard]] std::string full_unit_name(std::string_view name);

// How a cgroup answers to a name. Below a user's own systemd (user@UID.service) and in containers
// others choose the names, so one there means something only where the system has none such.
enum class CgroupMatch {
  kNone,
  kDelegated,
  kSystem,
};

// Whether the cgroup is the unit's or below it; slices are units too. `unit` is a full name.
[[nodiscard]] CgroupMatch match_unit(std::string_view path, std::string_view unit);

struct ContainerMatch {
  CgroupMatch match = CgroupMatch::kNone;
  std::string container;  // its full id or name
};

// Whether the cgroup is the container's or below it, by its id, the beginning of that (several may
// have it), or its name.
[[nodiscard]] ContainerMatch match_container(std::string_view path, std::string_view name);

// Whether the names below this cgroup are others' to choose.
[[nodiscard]] bool delegates_names(std::string_view path);

}  // namespace profd
