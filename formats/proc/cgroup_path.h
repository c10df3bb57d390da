// The systemd unit and the container that the path of a process's cgroup names.
//
// The unit is the innermost component that ends in ".service" or ".scope" and is not a container's.
// A container is named by an id of 64 hexadecimal digits: docker-ID.scope, libpod-ID.scope,
// cri-containerd-ID.scope, crio-ID.scope, /docker/ID, /kubepods/.../ID; or by a name:
// machine-NAME.scope (systemd-nspawn), lxc.payload.NAME. The paths of cgroup v1 and v2 have the
// same form.

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

// The UID of the Kubernetes pod in "...kubepods-burstable-podUID.slice", where "_" stands for "-",
// or "/kubepods/burstable/podUID". "" if there is none, or if a user may have chosen the name.
[[nodiscard]] std::string pod_uid_of_cgroup(std::string_view path);

// Completes the name of a unit as systemctl does: "nginx" becomes "nginx.service".
[[nodiscard]] std::string full_unit_name(std::string_view name);

// Whether a cgroup has a name, and who chose the name. Users choose the names below their own
// systemd (user@UID.service) and inside containers; such a match counts only if no cgroup of the
// system matches.
enum class CgroupMatch {
  kNone,
  kDelegated,
  kSystem,
};

// Matches the cgroup of the unit and those below it; slices are units too. `unit` is a full name.
[[nodiscard]] CgroupMatch match_unit(std::string_view path, std::string_view unit);

struct ContainerMatch {
  CgroupMatch match = CgroupMatch::kNone;
  std::string container;  // the full id or name
};

// Matches the cgroup of the container and those below it. `name` is an id, the start of one, which
// may match several containers, or a name.
[[nodiscard]] ContainerMatch match_container(std::string_view path, std::string_view name);

// Whether users choose the names of the cgroups below this one.
[[nodiscard]] bool delegates_names(std::string_view path);

}  // namespace profd
