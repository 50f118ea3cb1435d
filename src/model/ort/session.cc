#include "model/ort/session.h"

#include <fmt/format.h>
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "base/file.h"
#include "base/rng.h"

namespace hase::model::ort {
namespace {

namespace fs = std::filesystem;

// ONNX Runtime keeps one environment per process whatever we do; this is it. Its own log is off:
// what matters comes back as an exception.
Ort::Env& Environment() {
  static Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "hase");
  return env;
}

// An ONNX Runtime message on one line, without its source positions.
std::string Tidy(std::string_view message) {
  std::string line;
  // Its messages may open with the place in its own sources.
  if (message.starts_with("/onnxruntime_src/") && message.contains(' '))
    message.remove_prefix(message.find(' ') + 1);
  for (const char c : message) line += c == '\n' || c == '\r' ? ' ' : c;
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() > 400) line = line.substr(0, 400) + "…";
  return line;
}

// Runs `body` and turns whatever ONNX Runtime throws into an Error that starts with `name`.
template <typename F>
auto Guarded(const std::string& name, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Ort::Exception& e) {
    return Invalid(fmt::format("{}: ONNX Runtime: {}", name, Tidy(e.what())));
  } catch (const std::bad_alloc&) {
    return Unavailable(fmt::format("{}: out of memory in ONNX Runtime", name));
  } catch (const std::exception& e) {
    return Invalid(fmt::format("{}: ONNX Runtime: {}", name, Tidy(e.what())));
  }
}

TensorInfo Describe(std::string name, const Ort::TypeInfo& type) {
  TensorInfo info{.name = std::move(name), .type = ElementType::kOther, .shape = {}, .symbols = {}};
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) return info;
  const auto tensor = type.GetTensorTypeAndShapeInfo();
  info.type = FromOnnx(tensor.GetElementType());
  info.shape = tensor.GetShape();
  std::vector<const char*> symbols(info.shape.size(), "");
  if (!symbols.empty()) tensor.GetSymbolicDimensions(symbols.data(), symbols.size());
  info.symbols.assign(symbols.begin(), symbols.end());
  return info;
}

GraphOptimizationLevel LevelOf(Optimisation optimisation) {
  switch (optimisation) {
    case Optimisation::kNone:
      return ORT_DISABLE_ALL;
    case Optimisation::kBasic:
      return ORT_ENABLE_BASIC;
    case Optimisation::kExtended:
      return ORT_ENABLE_EXTENDED;
    case Optimisation::kAll:
      return ORT_ENABLE_ALL;
  }
  return ORT_ENABLE_ALL;
}

void UseCuda(const SessionOptions& options, Ort::SessionOptions& native) {
  OrtCUDAProviderOptions cuda{};
  cuda.device_id = options.cuda_device;
  cuda.arena_extend_strategy = 1;  // extend by what is asked for, not by powers of two
  if (options.arena_limit) cuda.gpu_mem_limit = static_cast<size_t>(options.arena_limit->value());
  native.AppendExecutionProvider_CUDA(cuda);
}

// ONNX Runtime takes a CPU arena's settings only through an allocator that the environment shares
// with all sessions of the process. So the settings of the first such session in a process stand.
void ShareCpuArena(std::optional<Bytes> limit, Ort::SessionOptions& native) {
  static const bool registered = [&] {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    constexpr int kExtendByWhatIsAsked = 1, kDefault = -1;
    const Ort::ArenaCfg config(static_cast<size_t>(limit.value_or(Bytes(0)).value()),
                               kExtendByWhatIsAsked, kDefault, kDefault);
    Environment().CreateAndRegisterAllocator(memory, config);
    return true;
  }();
  if (registered) native.AddConfigEntry("session.use_env_allocators", "1");
}

Ort::SessionOptions Translate(const SessionOptions& options) {
  Ort::SessionOptions native;
  native.SetIntraOpNumThreads(options.intra_threads);
  native.SetInterOpNumThreads(options.inter_threads);
  native.SetGraphOptimizationLevel(LevelOf(options.optimisation));
  const char* spin = options.allow_spinning ? "1" : "0";
  native.AddConfigEntry("session.intra_op.allow_spinning", spin);
  native.AddConfigEntry("session.inter_op.allow_spinning", spin);
  for (const auto& [name, value] : options.dimensions) {
    Ort::ThrowOnError(Ort::GetApi().AddFreeDimensionOverrideByName(native, name.c_str(), value));
  }
  if (options.profile_prefix) native.EnableProfiling(options.profile_prefix->c_str());
  if (options.save_optimised) native.SetOptimizedModelFilePath(options.save_optimised->c_str());
  if (options.drop_saved_weights) {
    // Never a device: ONNX Runtime deletes what is there and makes a file in its place, which as
    // root takes /dev/null from the whole machine.
    native.AddConfigEntry("session.optimized_model_external_initializers_file_name", "weights");
    native.AddConfigEntry("session.optimized_model_external_initializers_min_size_in_bytes",
                          "8200");
  }
  if (options.weights_folder) {
    native.AddConfigEntry("session.model_external_initializers_file_folder_path",
                          options.weights_folder->c_str());
  }
  if (options.provider == Provider::kCuda) {
    UseCuda(options, native);
  } else if (options.lean || options.arena_limit) {
    if (options.lean) native.DisableMemPattern();
    ShareCpuArena(options.arena_limit, native);
  }
  return native;
}

// Small patterns that keep arithmetic ordinary: no denormals, and integers that are valid indices.
void Fill(ElementType type, std::span<std::byte> bytes, Rng& rng) {
  const auto each = [&]<typename T>(T, auto&& next) {
    auto* values = reinterpret_cast<T*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) values[i] = next();
  };
  const auto bit = [&] { return rng.Next() >> 63; };
  switch (type) {
    case ElementType::kFloat:
      return each(float{}, [&] { return static_cast<float>(rng.Uniform(-1, 1)); });
    case ElementType::kDouble:
      return each(double{}, [&] { return rng.Uniform(-1, 1); });
    case ElementType::kHalf:  // 0.5 or 1.0 with a random sign
      return each(uint16_t{}, [&] { return uint16_t(0x3800 | bit() << 10 | bit() << 15); });
    case ElementType::kBfloat16:
      return each(uint16_t{}, [&] { return uint16_t(0x3f00 | bit() << 7 | bit() << 15); });
    case ElementType::kInt16:
    case ElementType::kUint16:
      return each(uint16_t{}, [&] { return uint16_t(bit()); });
    case ElementType::kInt32:
    case ElementType::kUint32:
      return each(uint32_t{}, [&] { return uint32_t(bit()); });
    case ElementType::kInt64:
    case ElementType::kUint64:
      return each(uint64_t{}, [&] { return uint64_t(bit()); });
    default:
      return each(uint8_t{}, [&] { return uint8_t(bit()); });
  }
}

template <typename T>
double Sum(const Ort::Value& value, size_t count) {
  const T* values = value.GetTensorData<T>();
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

double SumOf(const Ort::Value& value) {
  if (!value.IsTensor()) return 0;
  const auto info = value.GetTensorTypeAndShapeInfo();
  switch (FromOnnx(info.GetElementType())) {
    case ElementType::kFloat:
      return Sum<float>(value, info.GetElementCount());
    case ElementType::kDouble:
      return Sum<double>(value, info.GetElementCount());
    case ElementType::kInt64:
      return Sum<int64_t>(value, info.GetElementCount());
    case ElementType::kInt32:
      return Sum<int32_t>(value, info.GetElementCount());
    default:
      return 0;
  }
}

}  // namespace

std::string_view ToString(Provider provider) {
  return provider == Provider::kCuda ? "cuda" : "cpu";
}

struct Session::State {
  std::string name;
  Ort::Session session{nullptr};
  std::vector<TensorInfo> inputs, outputs;
  std::vector<const char*> input_names, output_names;
  std::vector<std::vector<std::byte>> buffers;  // what `feeds` point into
  std::vector<Ort::Value> feeds;

  void ReadSignature();
  std::vector<Ort::Value> Run();
};

void Session::State::ReadSignature() {
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    inputs.push_back(
        Describe(session.GetInputNameAllocated(i, allocator).get(), session.GetInputTypeInfo(i)));
  }
  for (size_t i = 0; i < session.GetOutputCount(); ++i) {
    outputs.push_back(
        Describe(session.GetOutputNameAllocated(i, allocator).get(), session.GetOutputTypeInfo(i)));
  }
  for (const auto& input : inputs) input_names.push_back(input.name.c_str());
  for (const auto& output : outputs) output_names.push_back(output.name.c_str());
}

std::vector<Ort::Value> Session::State::Run() {
  return session.Run(Ort::RunOptions{nullptr}, input_names.data(), feeds.data(), feeds.size(),
                     output_names.data(), output_names.size());
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::vector<TensorInfo>& Session::inputs() const { return state_->inputs; }
const std::vector<TensorInfo>& Session::outputs() const { return state_->outputs; }

Result<Session> Session::Create(const fs::path& model, const SessionOptions& options) {
  std::error_code error;
  if (!fs::is_regular_file(model, error)) {
    return Invalid(fmt::format("{}: {}", model.string(),
                               fs::exists(model, error) ? "is not a file" : "no such file"));
  }
  if (options.provider == Provider::kCuda) HASE_RETURN_IF_ERROR(ProviderUsable(options.provider));
  return Guarded(model.string(), [&]() -> Result<Session> {
    auto state = std::make_unique<State>();
    state->name = model.string();
    state->session = Ort::Session(Environment(), model.c_str(), Translate(options));
    state->ReadSignature();
    return Session(std::move(state));
  });
}

Result<Session> Session::Create(std::string_view bytes, const std::string& name,
                                const SessionOptions& options) {
  if (options.provider == Provider::kCuda) HASE_RETURN_IF_ERROR(ProviderUsable(options.provider));
  return Guarded(name, [&]() -> Result<Session> {
    auto state = std::make_unique<State>();
    state->name = name;
    state->session = Ort::Session(Environment(), bytes.data(), bytes.size(), Translate(options));
    state->ReadSignature();
    return Session(std::move(state));
  });
}

Status Session::Prepare(int64_t batch, uint64_t seed) {
  if (batch < 1) return Usage(fmt::format("batch {}: must be at least 1", batch));
  std::vector<Shape> shapes;
  for (const auto& input : state_->inputs) {
    Shape shape = input.shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] >= 0) continue;
      if (i > 0) {
        return Invalid(fmt::format(
            "{}: input '{}' leaves dimension {} open{}; fix it with --dim", state_->name,
            input.name, i, input.symbols[i].empty() ? "" : " ('" + input.symbols[i] + "')"));
      }
      shape[i] = batch;
    }
    if (shape.size() > 1 && shape[0] != batch) {
      return Usage(fmt::format("{}: input '{}' is fixed to batch {}, batch {} was asked",
                               state_->name, input.name, shape[0], batch));
    }
    shapes.push_back(std::move(shape));
  }
  return Prepare(shapes, seed);
}

Status Session::Prepare(const std::vector<Shape>& shapes, uint64_t seed) {
  if (shapes.size() != state_->inputs.size()) {
    return Usage(fmt::format("{}: {} input shapes given, the model has {}", state_->name,
                             shapes.size(), state_->inputs.size()));
  }
  return Guarded(state_->name, [&]() -> Status {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    state_->feeds.clear();
    state_->buffers.clear();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto& input = state_->inputs[i];
      const auto count = ElementCount(shapes[i]);
      if (!count || BytesOf(input.type) == 0) {
        return Invalid(fmt::format("{}: input '{}' of type {} cannot be filled", state_->name,
                                   input.name, ToString(input.type)));
      }
      auto& buffer =
          state_->buffers.emplace_back(static_cast<size_t>(*count * BytesOf(input.type)));
      Rng rng = Rng(seed).Split(input.name);
      Fill(input.type, buffer, rng);
      state_->feeds.push_back(Ort::Value::CreateTensor(
          memory, buffer.data(), buffer.size(), shapes[i].data(), shapes[i].size(),
          static_cast<ONNXTensorElementDataType>(ToOnnx(input.type))));
    }
    return {};
  });
}

Result<Nanos> Session::Run() {
  if (state_->feeds.size() != state_->inputs.size()) {
    return Usage(fmt::format("{}: Run before Prepare", state_->name));
  }
  return Guarded(state_->name, [&]() -> Result<Nanos> {
    const auto begin = std::chrono::steady_clock::now();
    const auto outputs = state_->Run();
    const auto end = std::chrono::steady_clock::now();
    return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
  });
}

Result<std::vector<double>> Session::RunAndSum() {
  return Guarded(state_->name, [&]() -> Result<std::vector<double>> {
    std::vector<double> sums;
    for (const auto& value : state_->Run()) sums.push_back(SumOf(value));
    return sums;
  });
}

Result<std::vector<NodeTime>> Session::EndProfiling(int skipped_runs) {
  std::string file;
  HASE_RETURN_IF_ERROR(Guarded(state_->name, [&]() -> Status {
    Ort::AllocatorWithDefaultOptions allocator;
    file = state_->session.EndProfilingAllocated(allocator).get();
    return {};
  }));
  auto text = ReadFile(file);
  std::error_code ignored;
  fs::remove(file, ignored);
  if (!text) return std::unexpected(text.error());
  return ParseProfile(*text, file, skipped_runs);
}

std::string RuntimeVersion() { return OrtGetApiBase()->GetVersionString(); }

Status ProviderUsable(Provider provider) {
  if (provider == Provider::kCpu) return {};
  const auto known = Ort::GetAvailableProviders();
  if (std::ranges::find(known, "CUDAExecutionProvider") == known.end()) {
    return Unavailable(
        "this ONNX Runtime was built without the CUDA provider; point "
        "ONNXRUNTIME_ROOT at a GPU build and configure again");
  }
  return Guarded("CUDA provider", []() -> Status {
    try {
      Environment();  // its logger first: without one the reason is lost
      Ort::SessionOptions native;
      UseCuda({}, native);
      return {};
    } catch (const Ort::Exception& e) {
      return Unavailable(fmt::format(
          "ONNX Runtime's CUDA provider does not load here (no NVIDIA GPU, driver, CUDA or cuDNN, "
          "or libonnxruntime_providers_cuda.so is not beside the library): {}",
          Tidy(e.what())));
    }
  });
}

}  // namespace hase::model::ort
