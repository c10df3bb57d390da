// The names of this host's Kubernetes pods by UID, from the directory in which the kubelet keeps
// their logs: "/var/log/pods/NAMESPACE_NAME_UID". No API server is asked.
//
// The directory is root's. It is listed again for a UID that is not known, but at most every five
// seconds. Used on a worker.

#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace profd {

struct PodEntry {
  std::string uid;
  std::string pod;  // "NAMESPACE/NAME"

  friend bool operator==(const PodEntry&, const PodEntry&) = default;
};

// Of the name of a directory. None: it is no pod's, or has characters that no pod's has.
[[nodiscard]] std::optional<PodEntry> parse_pod_entry(std::string_view name);

class PodDirectory {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  explicit PodDirectory(std::string path = "/var/log/pods",
                        Clock clock = std::chrono::steady_clock::now)
      : path_(std::move(path)), clock_(std::move(clock)) {}

  // "NAMESPACE/NAME"; "": it is not known.
  [[nodiscard]] std::string pod_of(const std::string& uid);

 private:
  void list();

  std::string path_;
  Clock clock_;
  std::optional<std::chrono::steady_clock::time_point> listed_;
  std::map<std::string, std::string> pods_;  // by UID; also such as were removed lately
};

}  // namespace profd
