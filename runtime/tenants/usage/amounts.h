// Amounts of what sandboxes use, as whole numbers that can be added without loss.
#pragma once

#include <array>
#include <cstdint>

namespace atl::tenants {

struct Amounts {
  int64_t cpu_us = 0;           // processor time
  int64_t cpu_reserved_us = 0;  // the limit of processors times the time that it was held
  int64_t memory_kib_ms = 0;    // memory in use times time
  int64_t memory_reserved_kib_ms = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t read_bytes = 0;  // block devices only
  int64_t written_bytes = 0;
  int64_t disk_kib_ms = 0;  // bytes charged to a project quota times time; 0 without quotas
  int64_t commands = 0;
  int64_t creates = 0;
  int64_t snapshot_kib_ms = 0;  // bytes of ready snapshots times time
  int64_t parked_us = 0;        // time that sandboxes waited for a claim, added up

  bool operator==(const Amounts&) const = default;
};

struct AmountField {
  int64_t Amounts::*value;
  const char* column;  // name in the ledger
};

// All amounts. Readers and writers of the ledger walk this list.
inline constexpr auto kAmounts = std::to_array<AmountField>({
    {&Amounts::cpu_us, "cpu_us"},
    {&Amounts::cpu_reserved_us, "cpu_reserved_us"},
    {&Amounts::memory_kib_ms, "memory_kib_ms"},
    {&Amounts::memory_reserved_kib_ms, "memory_reserved_kib_ms"},
    {&Amounts::bytes_in, "bytes_in"},
    {&Amounts::bytes_out, "bytes_out"},
    {&Amounts::read_bytes, "read_bytes"},
    {&Amounts::written_bytes, "written_bytes"},
    {&Amounts::disk_kib_ms, "disk_kib_ms"},
    {&Amounts::commands, "commands"},
    {&Amounts::creates, "creates"},
    {&Amounts::snapshot_kib_ms, "snapshot_kib_ms"},
    {&Amounts::parked_us, "parked_us"},
});
static_assert(sizeof(Amounts) == kAmounts.size() * sizeof(int64_t), "an amount without its line");

}  // namespace atl::tenants
