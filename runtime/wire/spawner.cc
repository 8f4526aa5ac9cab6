#include "runtime/wire/spawner.h"

#include "runtime/wire/bytes.h"

namespace atl::wire {
namespace {

constexpr uint32_t kMaxRecords = 8192;
constexpr uint32_t kMaxNames = 64;

constexpr std::array<std::string_view, static_cast<size_t>(Step::kCount)> kStepNames = {
    "cgroup",  "upper",   "ids",     "clone", "namespaces", "tree",   "proc",  "mask",
    "rlimits", "seccomp", "user",    "exec",  "check",      "limits", "enter", "etc",
    "overlay", "mounts",  "volumes", "cover", "gate",       "state"};

void PutLayers(Writer& writer, const std::vector<LayerId>& layers) {
  writer.Each(layers, [&](LayerId layer) { writer.U32(layer); });
}

std::vector<LayerId> GetLayers(Reader& reader, uint32_t limit) {
  std::vector<LayerId> layers;
  reader.Each(limit, [&] { layers.push_back(reader.U32()); });
  return layers;
}

}  // namespace

std::string_view StepName(Step step) {
  const auto index = static_cast<size_t>(step);
  return index < kStepNames.size() ? kStepNames[index] : "?";
}

void Encode(Writer& writer, const SandboxRecord& record) {
  writer.Text(record.id);
  writer.U32(record.slot);
  writer.U32(record.pid);
  writer.U8(record.exited ? 1 : 0);
  writer.U8(record.code_known ? 1 : 0);
  writer.I64(record.wait_status);
  writer.U8(record.oom_killed ? 1 : 0);
  PutLayers(writer, record.layers);
}

SandboxRecord DecodeRecord(Reader& reader) {
  SandboxRecord record;
  record.id = reader.Text();
  record.slot = reader.U32();
  record.pid = reader.U32();
  record.exited = reader.U8() != 0;
  record.code_known = reader.U8() != 0;
  record.wait_status = static_cast<int>(reader.I64());
  record.oom_killed = reader.U8() != 0;
  record.layers = GetLayers(reader, kMaxLayers);
  return record;
}

std::string Request::Encode() const {
  Writer writer;
  writer.U64(number);
  writer.U8(static_cast<uint8_t>(type));
  writer.U32(slot);
  writer.Text(id);
  writer.Text(plan);
  wire::Encode(writer, limits);
  writer.U8(flag ? 1 : 0);
  writer.U32(layer);
  writer.Text(volume);
  return writer.Take();
}

Result<Request> DecodeRequest(std::string_view bytes) {
  Reader reader(bytes);
  Request request;
  request.number = reader.U64();
  const uint8_t type = reader.U8();
  request.type = static_cast<RequestType>(type);
  request.slot = reader.U32();
  request.id = reader.Text();
  request.plan = reader.Text();
  request.limits = DecodeLimits(reader);
  request.flag = reader.U8() != 0;
  request.layer = reader.U32();
  request.volume = reader.Text();
  if (!reader.complete() || type < static_cast<uint8_t>(RequestType::kHello) ||
      type > static_cast<uint8_t>(RequestType::kPing)) {
    return Fail(Code::kInvalidArgument, "spawner request: malformed");
  }
  return request;
}

std::string Reply::Encode() const {
  Writer writer;
  writer.U64(number);
  writer.U8(ok ? 1 : 0);
  writer.U8(static_cast<uint8_t>(code));
  writer.I64(error_number);
  writer.Text(message);
  writer.U8(static_cast<uint8_t>(step));
  writer.U32(protocol);
  writer.U32(instance);
  writer.U8(cgroup_v2 ? 1 : 0);
  writer.Each(limits_available, [&](const std::string& name) { writer.Text(name); });
  writer.Each(sandboxes, [&](const SandboxRecord& record) { wire::Encode(writer, record); });
  PutLayers(writer, prepared_slots);
  writer.Text(cgroup_path);
  writer.U32(pid);
  for (uint32_t value : micros) writer.U32(value);
  writer.Text(text);
  PutLayers(writer, layers);
  writer.U64(volume_use.bytes);
  writer.U64(volume_use.entries);
  writer.U8(volume_use.complete ? 1 : 0);
  PutLayers(writer, frozen_slots);
  PutLayers(writer, stray_slots);
  writer.U8(more ? 1 : 0);
  return writer.Take();
}

Result<Reply> DecodeReply(std::string_view bytes) {
  Reader reader(bytes);
  Reply reply;
  reply.number = reader.U64();
  reply.ok = reader.U8() != 0;
  reply.code = static_cast<Code>(reader.U8());
  reply.error_number = static_cast<int>(reader.I64());
  reply.message = reader.Text();
  reply.step = static_cast<Step>(reader.U8());
  reply.protocol = reader.U32();
  reply.instance = reader.U32();
  reply.cgroup_v2 = reader.U8() != 0;
  reader.Each(kMaxNames, [&] { reply.limits_available.push_back(reader.Text()); });
  reader.Each(kMaxRecords, [&] { reply.sandboxes.push_back(DecodeRecord(reader)); });
  reply.prepared_slots = GetLayers(reader, kMaxRecords);
  reply.cgroup_path = reader.Text();
  reply.pid = reader.U32();
  for (uint32_t& value : reply.micros) value = reader.U32();
  reply.text = reader.Text();
  reply.layers = GetLayers(reader, 1 << 20);
  reply.volume_use.bytes = reader.U64();
  reply.volume_use.entries = reader.U64();
  reply.volume_use.complete = reader.U8() != 0;
  reply.frozen_slots = GetLayers(reader, kMaxRecords);
  reply.stray_slots = GetLayers(reader, kMaxRecords);
  reply.more = reader.U8() != 0;
  if (!reader.complete()) return Fail(Code::kInternal, "spawner reply: malformed");
  return reply;
}

}  // namespace atl::wire
