// Where the images of code made at run time go, one for each profile that has such code: beside a
// session's profiles, or into the store that windows share. Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "collectors/parser/parser.h"
#include "daemon/history/object_store.h"
#include "daemon/profiles/jit_image_part.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/result.h"

namespace profd {

class JitImages {
 public:
  // Images with code and lines are at most `max_bytes` together. `parser` must outlive *this.
  JitImages(Parser& parser, std::uint64_t max_bytes) : parser_(parser), left_(max_bytes) {}
  JitImages(const JitImages&) = delete;
  JitImages& operator=(const JitImages&) = delete;
  virtual ~JitImages() = default;

  // By which path the lines of a profile name its image; another one each time.
  [[nodiscard]] std::string line_path_for(const std::string& comm, std::uint32_t pid);

  // Where the functions of one profile may lie.
  [[nodiscard]] virtual JitRoom room() const = 0;

  [[nodiscard]] Result<void> write(const std::string& line_path, const JitImagePart& part);

 private:
  // The path of what is called "jit-COMM-PID" and perhaps a number.
  [[nodiscard]] virtual std::string line_path_of(const std::string& stem) const = 0;
  [[nodiscard]] virtual Result<void> put(const std::string& line_path,
                                         const std::string& image) = 0;

  Parser& parser_;
  std::uint64_t left_;
  std::set<std::string> taken_;
};

// objects/jit-COMM-PID.so of a result. Addresses are the process's own where they can be.
class ResultJitImages final : public JitImages {
 public:
  // `result` must outlive *this.
  ResultJitImages(Parser& parser, std::uint64_t max_bytes, ResultWriter& result)
      : JitImages(parser, max_bytes), result_(result) {}

  [[nodiscard]] JitRoom room() const override { return {}; }

 private:
  [[nodiscard]] std::string line_path_of(const std::string& stem) const override;
  [[nodiscard]] Result<void> put(const std::string& line_path, const std::string& image) override;

  ResultWriter& result_;
};

// The range of addresses that only windows' images have; each window its own part, by the second in
// which it began: so the profiles of a process's windows can be joined, and no image has to move.
inline constexpr AddressRange kWindowJitRange{(std::uint64_t{1} << 53) + (std::uint64_t{1} << 51),
                                              (std::uint64_t{1} << 53) + (std::uint64_t{1} << 52)};

// Whether a mapping line is one of a window's image.
[[nodiscard]] bool is_window_jit_line(const ProfileMapping& line);

// jit-COMM-PID-WINDOW.so in the store.
class WindowJitImages final : public JitImages {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 20;  // with code and lines

  // `window` is its name and `started_s` its start in seconds since 1970; `bytes` gets what each
  // image takes. `store` and `bytes` must outlive *this.
  WindowJitImages(Parser& parser, ObjectStore& store, std::string window, std::uint64_t started_s,
                  std::map<std::string, std::uint64_t>& bytes)
      : JitImages(parser, kMaxBytes),
        store_(store),
        window_(std::move(window)),
        started_s_(started_s),
        bytes_(bytes) {}

  [[nodiscard]] JitRoom room() const override;

 private:
  [[nodiscard]] std::string line_path_of(const std::string& stem) const override;
  [[nodiscard]] Result<void> put(const std::string& line_path, const std::string& image) override;

  ObjectStore& store_;
  std::string window_;
  std::uint64_t started_s_;
  std::map<std::string, std::uint64_t>& bytes_;
};

}  // namespace profd
