#include "formats/jit/image.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string_view>

#include <sodium/crypto_generichash.h>

#include "formats/elf/dwarf_lines.h"
#include "formats/elf/image_writer.h"

namespace profd {
namespace {

// Above all that a program can map, and below the addresses to which kernel addresses are folded
// (profile.h).
constexpr std::uint64_t kMovedStart = std::uint64_t{1} << 51;
constexpr std::uint64_t kMovedAlignment = 16;

// The largest gap between functions of one section; zeros fill it.
constexpr std::uint64_t kMaxSectionGap = kPage;

// A larger function has a section of its own, so that a function without code bytes takes no room.
constexpr std::uint64_t kMaxSharedBytes = 4 * kPage;

// The largest gap between functions of one mapping line. Perl's pprof runs objdump for each line,
// which takes 25 ms.
constexpr std::uint64_t kMaxLineGap = std::uint64_t{16} << 20;

// Code that needs more sections is moved together: ELF counts sections to 65,279.
constexpr std::size_t kMaxSections = 16384;

// Go's pprof takes the byte before the next symbol for the end of a function, and disassembles up
// to there. So a function has one byte more where there is room; otherwise its `ret` is cut off.
constexpr std::uint64_t kEndBytes = 1;

constexpr std::size_t kBuildIdBytes = 20;

// Gives each function an address, in the order of the calls.
class Placer {
 public:
  Placer(std::span<const AddressRange> occupied, std::span<const std::uint64_t> unnamed)
      : occupied_(occupied), unnamed_(unnamed) {}

  std::uint64_t place(const JitImageFunction& function) {
    const AddressRange own{function.address, function.address + function.bytes};
    if (!is_free(own)) return move(function);
    kept_.emplace(own.start, own.end);
    return own.start;
  }

  // Code that ran and code that did not are in sections of their own: zeros would fill the places
  // of one in a section with code bytes of the other.
  std::uint64_t move(const JitImageFunction& function) {
    const bool ran = function.address != 0;
    if (ran != last_moved_ran_) next_moved_ += 2 * kMaxSectionGap;
    last_moved_ran_ = ran;
    const std::uint64_t address = next_moved_;
    next_moved_ =
        (address + function.bytes + 2 * kMovedAlignment - 1) / kMovedAlignment * kMovedAlignment;
    return address;
  }

 private:
  [[nodiscard]] bool is_free(const AddressRange& range) const {
    if (range.start < 2 * kPage || range.end > kMovedStart) return false;
    const auto after = kept_.lower_bound(range.end);
    if (after != kept_.begin() && std::prev(after)->second > range.start) return false;
    const auto other = std::ranges::lower_bound(occupied_, range.end, {}, &AddressRange::start);
    if (other != occupied_.begin() && std::prev(other)->end > range.start) return false;
    const auto sampled = std::ranges::lower_bound(unnamed_, range.start);
    return sampled == unnamed_.end() || *sampled >= range.end + kEndBytes;
  }

  std::span<const AddressRange> occupied_;
  std::span<const std::uint64_t> unnamed_;
  std::map<std::uint64_t, std::uint64_t> kept_;
  std::uint64_t next_moved_ = kMovedStart + kPage;
  bool last_moved_ran_ = true;
};

// Indexes of functions, sorted by their addresses in the image.
std::vector<std::size_t> by_address(const std::vector<std::uint64_t>& addresses) {
  std::vector<std::size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return addresses[i]; });
  return order;
}

// The functions of one section, as a range of the order by address.
struct Cluster {
  std::size_t first = 0;
  std::size_t end = 0;
};

// Depends on sizes and addresses alone, so that functions whose code bytes are known need no more
// sections than the layout counted.
std::vector<Cluster> clusters_of(const std::vector<JitImageFunction>& functions,
                                 const std::vector<std::uint64_t>& addresses,
                                 const std::vector<std::size_t>& order) {
  const auto belong_together = [&](std::size_t a, std::size_t b) {
    const std::uint64_t gap = addresses[b] - (addresses[a] + functions[a].bytes);
    return gap <= kMaxSectionGap && functions[a].bytes <= kMaxSharedBytes &&
           functions[b].bytes <= kMaxSharedBytes;
  };
  std::vector<Cluster> clusters;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && belong_together(order[i - 1], order[i])) {
      clusters.back().end = i + 1;
    } else {
      clusters.push_back({i, i + 1});
    }
  }
  return clusters;
}

// Moves the functions that would need too many sections.
void move_excess(const std::vector<JitImageFunction>& functions, Placer& placer,
                 std::vector<std::uint64_t>& addresses) {
  const std::vector<std::size_t> order = by_address(addresses);
  const std::vector<Cluster> clusters = clusters_of(functions, addresses, order);
  if (clusters.size() <= kMaxSections) return;
  for (std::size_t i = clusters[kMaxSections / 2].first; i < order.size(); ++i)
    addresses[order[i]] = placer.move(functions[order[i]]);
}

class MappingLines {
 public:
  explicit MappingLines(std::span<const AddressRange> occupied) : occupied_(occupied) {}

  void add(const AddressRange& function) {
    const auto next = std::ranges::upper_bound(occupied_, function.start, {}, &AddressRange::start);
    const std::uint64_t free_from = next == occupied_.begin() ? 0 : std::prev(next)->end;
    if (!lines_.empty() && free_from <= lines_.back().end &&
        function.start - lines_.back().end <= kMaxLineGap) {
      lines_.back().end = function.end;
      return;
    }
    const std::uint64_t start = page_of(function.start) - kPage;
    const std::uint64_t last = lines_.empty() ? 0 : lines_.back().end;
    lines_.push_back({std::max({start, free_from, last}), function.end, 0});
  }

  // The lines, with file offsets that Perl's pprof computes from the first section's.
  [[nodiscard]] std::vector<ImagePlacement> finish() {
    for (ImagePlacement& line : lines_)
      line.file_offset = kElfTextOffset + (line.start - lines_.front().start);
    return std::move(lines_);
  }

 private:
  std::span<const AddressRange> occupied_;
  std::vector<ImagePlacement> lines_;
};

// The size of a function's symbol. `place` is the function's place in the order by address.
std::uint64_t bytes_given(const JitImage& image, const JitImageLayout& layout,
                          const std::vector<std::size_t>& order, std::size_t place) {
  const std::uint64_t bytes = image.functions[order[place]].bytes;
  if (place + 1 == order.size()) return bytes + kEndBytes;
  const std::uint64_t room = layout.addresses[order[place + 1]] - layout.addresses[order[place]];
  return std::min(bytes + kEndBytes, room);
}

// A section from `start` on, which may lie before its first function.
ElfCodeSection section_of(const JitImage& image, const JitImageLayout& layout,
                          const std::vector<std::size_t>& order, const Cluster& cluster,
                          std::uint64_t start) {
  const std::size_t last = order[cluster.end - 1];
  ElfCodeSection section;
  section.address = start;
  section.bytes =
      layout.addresses[last] + bytes_given(image, layout, order, cluster.end - 1) - start;
  section.file_offset = kElfTextOffset;
  for (std::size_t place = cluster.first; place < cluster.end; ++place) {
    const JitImageFunction& function = image.functions[order[place]];
    if (!function.code.empty()) {
      section.code.push_back({layout.addresses[order[place]],
                              std::string_view(function.code).substr(0, function.bytes)});
    }
  }
  return section;
}

// The name that is shown for a file: the path of a URL.
std::string_view path_of(std::string_view name) {
  constexpr std::string_view kFileUrl = "file://";
  if (name.starts_with(kFileUrl)) name.remove_prefix(kFileUrl.size());
  return name;
}

DwarfSections lines_of(const JitImage& image, const JitImageLayout& layout,
                       const std::vector<std::size_t>& order) {
  const std::string name = "[" + image.name + "]";
  DwarfLinesWriter writer(name, image.directory);
  const std::uint32_t unknown = writer.add_file(name);
  for (const std::string& file : image.files) writer.add_file(path_of(file));
  for (const std::size_t i : order) {
    const JitImageFunction& function = image.functions[i];
    const bool known = !function.lines.empty();
    writer.begin_function(function.name, layout.addresses[i], function.bytes,
                          known ? function.lines[0].file + 1 + unknown : unknown,
                          known ? function.lines[0].line : 1);
    for (const JitImageLine& line : function.lines) {
      writer.add_line(layout.addresses[i] + line.code_offset, line.file + 1 + unknown, line.line,
                      line.column);
    }
    writer.end_function();
  }
  const std::size_t last = order.back();
  return writer.finish(layout.addresses[order.front()],
                       layout.addresses[last] + image.functions[last].bytes);
}

void add_symbols(ElfImageWriter& writer, const JitImage& image, const JitImageLayout& layout,
                 const std::vector<std::size_t>& order, const std::vector<Cluster>& clusters) {
  for (std::size_t section = 0; section < clusters.size(); ++section) {
    const Cluster& cluster = clusters[section];
    for (std::size_t place = cluster.first; place < cluster.end; ++place) {
      const std::uint64_t address = layout.addresses[order[place]];
      const std::uint64_t bytes = bytes_given(image, layout, order, place);
      const bool is_last = place + 1 == cluster.end;
      const std::uint64_t next = is_last ? address + bytes : layout.addresses[order[place + 1]];
      writer.add_function({address, bytes, image.functions[order[place]].name}, next, section);
    }
  }
  writer.add_end();
}

std::string build_id_of(const std::vector<ElfCodeSection>& code, const DwarfSections& lines) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, kBuildIdBytes);
  const auto add = [&](std::string_view bytes) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
  };
  for (const ElfCodeSection& section : code) {
    for (const ElfCode& function : section.code) add(function.bytes);
  }
  add(lines.info);  // names and addresses
  add(lines.line);
  std::string id(kBuildIdBytes, '\0');
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(id.data()), id.size());
  return id;
}

}  // namespace

JitImageLayout lay_out_jit_image(const std::vector<JitImageFunction>& functions,
                                 std::span<const AddressRange> occupied,
                                 std::span<const std::uint64_t> unnamed) {
  JitImageLayout layout;
  Placer placer(occupied, unnamed);
  for (const JitImageFunction& function : functions)
    layout.addresses.push_back(placer.place(function));
  move_excess(functions, placer, layout.addresses);
  MappingLines lines(occupied);
  for (const std::size_t i : by_address(layout.addresses))
    lines.add({layout.addresses[i], layout.addresses[i] + functions[i].bytes});
  layout.placements = lines.finish();
  return layout;
}

EncodedJitImage encode_jit_image(const JitImage& image, const JitImageLayout& layout) {
  const std::vector<std::size_t> order = by_address(layout.addresses);
  const std::vector<Cluster> clusters = clusters_of(image.functions, layout.addresses, order);
  std::vector<ElfCodeSection> code;
  for (const Cluster& cluster : clusters) {
    const std::uint64_t start =
        code.empty() ? layout.placements.front().start : layout.addresses[order[cluster.first]];
    code.push_back(section_of(image, layout, order, cluster, start));
  }
  DwarfSections lines = lines_of(image, layout, order);
  EncodedJitImage encoded;
  encoded.build_id = build_id_of(code, lines);
  ElfImageWriter writer(ET_EXEC, kElfHostMachine, 0, std::move(code));
  writer.set_gap_name(image.name);
  writer.set_build_id(encoded.build_id);
  writer.add_debug_section(".debug_abbrev", std::move(lines.abbrev));
  writer.add_debug_section(".debug_info", std::move(lines.info));
  writer.add_debug_section(".debug_line", std::move(lines.line));
  add_symbols(writer, image, layout, order, clusters);
  encoded.bytes = writer.encode();
  return encoded;
}

}  // namespace profd
