// Adds up profiles, as pprof does: samples by labels and stack, functions by content, mappings by
// size, offset, build id and name, locations by mapping, address in it and lines. The time is the
// earliest, the duration the sum, the period the longest; comments are a set. Own data is not
// merged: its writer knows what it means.
//
// Unlike in pprof, samples that differ in their longest block alone are one, which has the longest
// of both (PprofProfile::longest()).
//
// Unlike in pprof, a file with a build id that has two names is two mappings: the processes of one
// user may know it by a name that another may not see.
//
// A mapping takes the addresses that it has in the first profile with it. So the order of the
// profiles matters where, in profiles of other programs, a file was loaded at two addresses.
//
// Costs grow with what is kept: a text, function or location that no kept sample uses is not even
// hashed.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/seeded_hash.h"
#include "formats/profile/interned.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

struct PprofMergeOptions {
  // A location then is its mapping and lines alone: hour files are 40 % smaller without addresses.
  bool drop_addresses = false;
};

// Called once for each run of samples with equal labels. False: they are left out. May change
// `labels`, whose indexes are those of `tables`: without "pid", processes are added up.
using PprofSelect = std::function<bool(const PprofTables& tables, std::vector<PprofLabel>& labels)>;

class PprofMerge {
 public:
  explicit PprofMerge(PprofMergeOptions options = {}, std::uint64_t hash_seed = random_seed());

  // kInvalidArgument: the sample types or the period type differ from those of the first profile.
  // Nothing is changed then.
  [[nodiscard]] Result<void> add(const PprofTables& tables, const PprofSelect& select = {});

  // All added so far; without sample types before the first.
  [[nodiscard]] const PprofProfile& profile() const { return profile_; }
  [[nodiscard]] PprofProfile take() && { return std::move(profile_); }

 private:
  friend class PprofAddition;
  friend class PprofParts;

  // False: see add().
  [[nodiscard]] bool add_header(const PprofTables& tables);
  void merge_header(const PprofTables& tables);

  PprofMergeOptions options_;
  std::uint64_t hash_seed_;
  bool is_empty_ = true;
  PprofProfile profile_;
  InternedValues<PprofMapping> mapping_keys_;  // by index into profile_.mappings()
};

// The places of the entries of a profile's tables in another one. clear() costs no more than what
// was set, so that one object serves for many parts of a profile.
class PprofPlaces {
 public:
  // None of these is a place.
  static constexpr std::uint32_t kUnused = 0xffffffff;
  static constexpr std::uint32_t kUsed = 0xfffffffe;  // and not added yet

  explicit PprofPlaces(std::size_t entries) : places_(entries, kUnused) {}

  [[nodiscard]] std::uint32_t operator[](std::uint32_t entry) const { return places_[entry]; }
  void set(std::uint32_t entry, std::uint32_t place) {
    if (places_[entry] == kUnused) entries_.push_back(entry);
    places_[entry] = place;
  }
  void mark(std::uint32_t entry) {
    if (places_[entry] == kUnused) set(entry, kUsed);
  }
  // The entries that have been set, in their order.
  [[nodiscard]] std::span<const std::uint32_t> entries();
  void clear();
  [[nodiscard]] bool empty() const { return places_.empty(); }

 private:
  std::vector<std::uint32_t> places_;
  std::vector<std::uint32_t> entries_;
};

struct PprofTablePlaces {
  explicit PprofTablePlaces(const PprofTables& tables);
  void clear();

  PprofPlaces texts;
  PprofPlaces functions;
  PprofPlaces mappings;
  PprofPlaces locations;
};

// Makes profiles of parts of the samples of one profile. Each costs what its samples use, however
// long the tables are.
class PprofParts {
 public:
  // Borrows the tables.
  explicit PprofParts(const PprofTables& tables) : tables_(tables), places_(tables) {}

  // As PprofMerge::add() adds up these samples, given by their indexes in order.
  [[nodiscard]] PprofProfile profile_of(std::span<const std::uint32_t> samples,
                                        const PprofSelect& select = {});

 private:
  const PprofTables& tables_;
  PprofTablePlaces places_;
};

// One profile as it is.
[[nodiscard]] PprofProfile profile_of(const PprofTables& tables);

}  // namespace profd
