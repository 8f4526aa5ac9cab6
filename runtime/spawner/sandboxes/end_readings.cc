#include "runtime/spawner/sandboxes/end_readings.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace atl::spawner {
namespace {

// The wall clock only orders the readings of an older spawner, because it may be stepped.
std::pair<int64_t, int64_t> OrderOf(const Record& record) {
  return {record.end.ended_boot_ms, record.end.ended_ms};
}

}  // namespace

Status EndReadings::Load() {
  ATOLL_ASSIGN(std::vector<Record> records, ReadRecords(directory_.get()));
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return OrderOf(a) < OrderOf(b); });
  for (const Record& record : records) Add(record);
  return {};
}

Status EndReadings::Keep(int records, const Record& record) {
  const std::string& id = record.sandbox.id;
  if (::renameat(records, id.c_str(), directory_.get(), id.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return FailSys("rename record " + id);
  }
  Add(record);
  return {};
}

void EndReadings::Add(const Record& record) {
  const std::string& id = record.sandbox.id;
  if (const auto found = numbers_.find(id); found != numbers_.end()) ends_.erase(found->second);
  numbers_[id] = ++last_;
  ends_[last_] = {id, record.end};
  while (ends_.size() > most_) Remove(ends_.begin()->first);
}

void EndReadings::Remove(uint64_t number) {
  const auto found = ends_.find(number);
  [[maybe_unused]] const Status removed = RemoveRecord(directory_.get(), found->second.id);
  numbers_.erase(found->second.id);
  ends_.erase(found);
}

wire::EndReading EndReadings::Find(const std::string& id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? wire::EndReading() : ends_.at(found->second).reading;
}

void EndReadings::Settle(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (const auto found = numbers_.find(id); found != numbers_.end()) Remove(found->second);
  }
}

std::vector<wire::SandboxEnd> EndReadings::Oldest() const {
  std::vector<wire::SandboxEnd> oldest;
  for (const auto& [number, end] : ends_) {
    if (oldest.size() == wire::kMaxEnds) break;
    oldest.push_back(end);
  }
  return oldest;
}

}  // namespace atl::spawner
