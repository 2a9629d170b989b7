// oneDNN's convolutions. The library chooses the order of the weights, which pack plans bring them into; gradients of
// weights come out in such an order too and are brought back within the pass.
#include <fmt/format.h>

#include <array>

#include <troupe/core/round_up.hpp>
#include <troupe/learner/engine/cpu/convolution_backends.hpp>
#include <troupe/learner/engine/cpu/detail/onednn.hpp>

namespace troupe::learner {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// The library's descriptions of a shape's operands and of its three passes.
struct Descriptions {
  Descriptions(const ConvShape& s, DType dtype)
      : type(dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32),
        image({s.batch, s.in, s.height, s.width}, type, Tag::nhwc),
        out({s.batch, s.out, s.out_h(), s.out_w()}, type, Tag::nhwc),
        bias({s.out}, memory::data_type::f32, Tag::x),
        plain({s.out, s.in, s.kernel_h, s.kernel_w}, memory::data_type::f32, Tag::hwio),
        strides{s.stride, s.stride},
        before{s.padding, s.padding},
        after{(s.out_h() - 1) * s.stride + s.kernel_h - s.height - s.padding,
              (s.out_w() - 1) * s.stride + s.kernel_w - s.width - s.padding} {
    enter_compute_thread();  // primitives are made for as many threads as the library may use here, which is one
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  static constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

  memory::desc weight(memory::data_type of) const { return {plain.get_dims(), of, Tag::any}; }

  dnnl::convolution_forward::primitive_desc forward(const ConvShape& s, const memory::desc& weights) const {
    dnnl::primitive_attr with = attr;
    if (s.activation != Activation::kNone) {
      dnnl::post_ops after_sum;
      after_sum.append_eltwise(dnnl::algorithm::eltwise_relu,
                               s.activation == Activation::kLeakyRelu ? kLeakyReluSlope : 0, 0);
      with.set_post_ops(after_sum);
    }
    constexpr auto kind = dnnl::prop_kind::forward_training;
    if (s.bias) return {onednn_cpu(), kind, kAlgorithm, image, weights, bias, out, strides, before, after, with};
    return {onednn_cpu(), kind, kAlgorithm, image, weights, out, strides, before, after, with};
  }
  /// The pass of no bias and no activation, which those of gradients refer to.
  dnnl::convolution_forward::primitive_desc hint() const { return forward({}, weight(type)); }
  dnnl::convolution_backward_data::primitive_desc input_grad(const memory::desc& weights) const {
    return {onednn_cpu(), kAlgorithm, image, weights, out, strides, before, after, hint(), attr};
  }
  dnnl::convolution_backward_weights::primitive_desc weight_grad() const {
    return {onednn_cpu(), kAlgorithm, image, weight(memory::data_type::f32), out, strides, before, after, hint(), attr};
  }
  /// How the pass wants its weights.
  memory::desc packed(const ConvShape& s) const {
    return s.pass == ConvPass::kForward ? forward(s, weight(type)).weights_desc()
                                        : input_grad(weight(type)).weights_desc();
  }

  memory::data_type type;
  memory::desc image, out, bias, plain;
  memory::dims strides, before, after;
  dnnl::primitive_attr attr;
};

/// A primitive with its arguments, whose addresses are set anew at each run.
class Call {
 public:
  Call() = default;
  Call(const dnnl::primitive& primitive, std::initializer_list<std::pair<int, memory::desc>> arguments)
      : primitive_(primitive), stream_(onednn_cpu()) {
    for (const auto& [name, desc] : arguments) {
      memories_[count_] = memory(desc, onednn_cpu(), nullptr);
      arguments_[count_] = {name, memories_[count_].get()};
      ++count_;
    }
  }
  /// The C interface: the C++ one takes a map and allocates. Fails only for arguments that were checked when made.
  void run(std::initializer_list<const void*> addresses) const {
    std::size_t i = 0;
    for (const void* address : addresses) dnnl_memory_set_data_handle(memories_[i++].get(), const_cast<void*>(address));
    dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(count_), arguments_.data());
  }

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::array<memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  std::size_t count_ = 0;
};

Call reorder(const memory::desc& from, const memory::desc& to) {
  enter_compute_thread();
  return {dnnl::reorder(dnnl::reorder::primitive_desc(onednn_cpu(), from, onednn_cpu(), to)),
          {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

class OneDnnConvolution final : public ConvPlan {
 public:
  OneDnnConvolution(const ConvShape& s, std::int64_t packed_for, DType dtype) : pass_(s.pass), bias_(s.bias) {
    const Descriptions d(s, dtype);
    ConvShape packing = s;
    packing.batch = packed_for;
    switch (s.pass) {
      case ConvPass::kForward: {
        const auto desc = d.forward(s, Descriptions(packing, dtype).packed(packing));
        if (s.bias) {
          call_ = Call(dnnl::convolution_forward(desc), {{DNNL_ARG_SRC, d.image},
                                                         {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                         {DNNL_ARG_DST, d.out},
                                                         {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()},
                                                         {DNNL_ARG_BIAS, d.bias}});
        } else {
          call_ = Call(dnnl::convolution_forward(desc), {{DNNL_ARG_SRC, d.image},
                                                         {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                         {DNNL_ARG_DST, d.out},
                                                         {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
        }
        workspace_bytes_ = desc.scratchpad_desc().get_size();
        break;
      }
      case ConvPass::kInputGrad: {
        const auto desc = d.input_grad(Descriptions(packing, dtype).packed(packing));
        call_ = Call(dnnl::convolution_backward_data(desc), {{DNNL_ARG_DIFF_DST, d.out},
                                                             {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                             {DNNL_ARG_DIFF_SRC, d.image},
                                                             {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
        workspace_bytes_ = desc.scratchpad_desc().get_size();
        break;
      }
      case ConvPass::kWeightGrad: {
        const auto desc = d.weight_grad();
        const memory::desc made = desc.diff_weights_desc();
        call_ = Call(dnnl::convolution_backward_weights(desc), {{DNNL_ARG_SRC, d.image},
                                                                {DNNL_ARG_DIFF_DST, d.out},
                                                                {DNNL_ARG_DIFF_WEIGHTS, made},
                                                                {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
        scratch_ = round_up(desc.scratchpad_desc().get_size(), 64);
        unpacks_ = made != d.plain;
        if (unpacks_) unpack_ = reorder(made, d.plain);
        workspace_bytes_ = scratch_ + (unpacks_ ? made.get_size() : 0);
        break;
      }
    }
  }

  void run(const void* a, const void* b, const void* bias, void* c, void* workspace) const override {
    if (bias_) return call_.run({a, b, c, workspace, bias});
    if (!unpacks_) return call_.run({a, b, c, workspace});
    void* const made = static_cast<std::byte*>(workspace) + scratch_;
    call_.run({a, b, made, workspace});
    unpack_.run({made, c});
  }

 private:
  ConvPass pass_;
  bool bias_;
  bool unpacks_ = false;
  std::size_t scratch_ = 0;
  Call call_, unpack_;
};

class OneDnnPack final : public ConvPlan {
 public:
  OneDnnPack(const memory::desc& from, const memory::desc& to) : call_(reorder(from, to)) {}
  void run(const void* weight, const void*, const void*, void* packed, void*) const override {
    call_.run({weight, packed});
  }

 private:
  Call call_;
};

Error refused(const ConvShape& s, DType dtype, const char* why) {
  return {Code::kInternal,
          fmt::format("convolution: oneDNN refuses a {} one of [{}, {}, {}, {}] with [{}, {}, {}, {}]: {}",
                      troupe::to_string(dtype), s.batch, s.height, s.width, s.in, s.kernel_h, s.kernel_w, s.in, s.out,
                      why)};
}

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_onednn_convolution(const ConvShape& shape, std::int64_t packed_for,
                                                          DType dtype) {
  try {
    return std::unique_ptr<ConvPlan>(std::make_unique<OneDnnConvolution>(shape, packed_for, dtype));
  } catch (const dnnl::error& error) {
    return refused(shape, dtype, error.what());
  }
}

bool onednn_convolves(const ConvShape& shape, DType dtype) {
  try {
    const Descriptions d(shape, dtype);
    if (shape.pass == ConvPass::kWeightGrad) {
      d.weight_grad();
    } else {
      d.packed(shape);
    }
    return true;
  } catch (const dnnl::error& error) {
    return error.status != dnnl_unimplemented;  // others are said by who makes the plan
  }
}

Result<std::size_t> onednn_packed_bytes(const ConvShape& shape, DType dtype) {
  try {
    const Descriptions d(shape, dtype);
    const memory::desc packed = d.packed(shape);
    return packed == d.plain ? std::size_t{0} : packed.get_size();
  } catch (const dnnl::error& error) {
    return refused(shape, dtype, error.what());
  }
}

Result<std::unique_ptr<ConvPlan>> make_onednn_pack(const ConvShape& shape, DType dtype) {
  try {
    const Descriptions d(shape, dtype);
    return std::unique_ptr<ConvPlan>(std::make_unique<OneDnnPack>(d.plain, d.packed(shape)));
  } catch (const dnnl::error& error) {
    return refused(shape, dtype, error.what());
  }
}

}  // namespace troupe::learner
