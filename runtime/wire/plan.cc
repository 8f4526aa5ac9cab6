#include "runtime/wire/plan.h"

namespace atl::wire {

void Encode(Writer& writer, const Limits& limits) {
  writer.U64(limits.memory_bytes);
  writer.U64(limits.swap_bytes);
  writer.U32(limits.pids);
  writer.U32(limits.cpu_millis);
  writer.U64(limits.io_read_bps);
  writer.U64(limits.io_write_bps);
  writer.U32(limits.io_read_iops);
  writer.U32(limits.io_write_iops);
  writer.U64(limits.disk_bytes);
}

Limits DecodeLimits(Reader& reader) {
  Limits limits;
  limits.memory_bytes = reader.U64();
  limits.swap_bytes = reader.U64();
  limits.pids = reader.U32();
  limits.cpu_millis = reader.U32();
  limits.io_read_bps = reader.U64();
  limits.io_write_bps = reader.U64();
  limits.io_read_iops = reader.U32();
  limits.io_write_iops = reader.U32();
  limits.disk_bytes = reader.U64();
  return limits;
}

std::string EncodePlan(const Plan& plan) {
  Writer writer;
  writer.Text(plan.id);
  writer.U32(plan.slot);
  writer.Each(plan.layers, [&](LayerId layer) { writer.U32(layer); });
  writer.U8(plan.readonly_root ? 1 : 0);
  writer.Text(plan.hostname);
  writer.Text(plan.hosts);
  writer.Text(plan.resolv_conf);
  writer.U64(plan.shm_bytes);
  Encode(writer, plan.limits);
  writer.Each(plan.volumes, [&](const Volume& volume) { Encode(writer, volume); });
  return writer.Take();
}

Result<Plan> DecodePlan(std::string_view bytes) {
  Reader reader(bytes);
  Plan plan;
  plan.id = reader.Text();
  plan.slot = reader.U32();
  reader.Each(kMaxLayers, [&] { plan.layers.push_back(reader.U32()); });
  plan.readonly_root = reader.U8() != 0;
  plan.hostname = reader.Text();
  plan.hosts = reader.Text();
  plan.resolv_conf = reader.Text();
  plan.shm_bytes = reader.U64();
  plan.limits = DecodeLimits(reader);
  reader.Each(kMaxVolumes, [&] { plan.volumes.push_back(DecodeVolume(reader)); });
  if (!reader.complete()) return Fail(Code::kInvalidArgument, "plan: malformed");
  for (const Volume& volume : plan.volumes) ATOLL_TRY(CheckForm(volume));
  return plan;
}

}  // namespace atl::wire
