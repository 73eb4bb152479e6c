#include "sim/emulate/reference.h"

#include <cmath>
#include <limits>
#include <vector>

#include "sim/execute/synthetic.h"

namespace meshweave {

namespace {

using Row = Eigen::RowVectorXd;

constexpr double epsilon = 1e-5;  // of the norms

// y = unit·γ + β with unit = (x − mean)/deviation, or x/root mean square.
struct NormValues {
  RowMatrix unit, y;
  Eigen::VectorXd inverse;  // 1/deviation
};

NormValues norm_of(const RowMatrix& x, const RowMatrix& gamma, const RowMatrix* beta) {
  NormValues n;
  const Eigen::VectorXd mean = beta != nullptr ? Eigen::VectorXd(x.rowwise().mean()) : Eigen::VectorXd::Zero(x.rows());
  const RowMatrix centred = x.colwise() - mean;
  n.inverse = (centred.array().square().rowwise().mean() + epsilon).rsqrt();
  n.unit = centred.array().colwise() * n.inverse.array();
  n.y = n.unit.array().rowwise() * gamma.row(0).array();
  if (beta != nullptr) n.y.rowwise() += beta->row(0);
  return n;
}

// ∂/∂x of a norm: (g − mean(g) − unit·mean(g·unit))/deviation with g = dy·γ; without mean(g) for the root
// mean square.
RowMatrix norm_gradient(const NormValues& n, const RowMatrix& gamma, const RowMatrix& dy, bool centred) {
  const RowMatrix g = dy.array().rowwise() * gamma.row(0).array();
  const Eigen::VectorXd along = (g.array() * n.unit.array()).rowwise().mean();
  RowMatrix dx = g - RowMatrix(n.unit.array().colwise() * along.array());
  if (centred) dx.colwise() -= Eigen::VectorXd(g.rowwise().mean());
  return dx.array().colwise() * n.inverse.array();
}

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
double silu(double x) { return x / (1 + std::exp(-x)); }
double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

RowMatrix map(const RowMatrix& x, double (*f)(double)) { return x.unaryExpr(f); }

// Turns every head's halves (u, w) at position p by angle p·10000^(−2i/d), backwards for direction −1.
RowMatrix rotated(const RowMatrix& x, std::int64_t head_dim, double direction) {
  RowMatrix y(x.rows(), x.cols());
  const std::int64_t half = head_dim / 2;
  for (std::int64_t p = 0; p < x.rows(); ++p) {
    for (std::int64_t head = 0; head < x.cols() / head_dim; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = direction * static_cast<double>(p) /
                             std::pow(1e4, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const double u = x(p, head * head_dim + i);
        const double w = x(p, head * head_dim + half + i);
        y(p, head * head_dim + i) = u * std::cos(angle) - w * std::sin(angle);
        y(p, head * head_dim + half + i) = w * std::cos(angle) + u * std::sin(angle);
      }
    }
  }
  return y;
}

}  // namespace

// One sample: its forward values, kept for its backward.
class Reference::Sample {
 public:
  Sample(Reference& of, std::int64_t sample, const ReferenceRecorder& record)
      : of_(of), shape_(of.settings_.shape), sample_(sample), record_(record) {
    for (std::int64_t p = 0; p <= shape_.sequence; ++p) {
      tokens_.push_back(synthetic_token(of.settings_.seed, of.step_, sample, p, shape_.vocabulary));
    }
  }

  // The sum of the losses of its tokens.
  double forward() {
    RowMatrix x = embed();
    tell(-1, "hidden", x);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      x = layer_forward(layer, x);
      tell(layer, "hidden", x);
    }
    return head_forward(x);
  }

  // Adds the gradients of `scale` times the sum of its losses.
  void backward(double scale) {
    RowMatrix dx = head_backward(scale);
    for (int layer = static_cast<int>(shape_.layers) - 1; layer >= 0; --layer) {
      tell(layer, "d(hidden)", dx);
      dx = layer_backward(layer, dx);
    }
    tell(-1, "d(hidden)", dx);
    embed_backward(dx);
  }

 private:
  struct Layer {
    RowMatrix x, q, k, v, context, a, fc1, activated;
    NormValues norm1, norm2;
    std::vector<RowMatrix> probabilities;  // per head, before dropout
    RowMatrix keep_attention, keep_mlp;
    std::vector<RowMatrix> keep_pairs;  // per head
  };

  bool centred() const { return shape_.norm == Norm::layer_norm; }
  const RowMatrix& weight(int layer, const std::string& name) const { return of_.parameter(layer, name); }
  const RowMatrix* find(int layer, const std::string& name) const {
    const auto it = of_.parameters_.find({layer, name});
    return it == of_.parameters_.end() ? nullptr : &it->second;
  }
  void tell(int layer, const std::string& name, const RowMatrix& value) const {
    if (record_) record_(layer, name, sample_, value);
  }
  void contribute(int layer, const std::string& name, const std::string& use, const RowMatrix& gradient) {
    of_.gradients_.at({layer, name}) += gradient;
    tell(layer, "grad(" + name + ") by " + use, gradient);
  }

  // x·Wᵀ + b
  RowMatrix linear(int layer, const std::string& name, const RowMatrix& x, bool bias) const {
    RowMatrix y = x * weight(layer, name + ".weight").transpose();
    if (bias) y.rowwise() += weight(layer, name + ".bias").row(0);
    return y;
  }
  // Gradients of W and b; returns that of x. `bias_use` names what adds the bias.
  RowMatrix linear_backward(int layer, const std::string& name, const RowMatrix& x, const RowMatrix& dy,
                            const std::string& bias_use) {
    contribute(layer, name + ".weight", name, dy.transpose() * x);
    if (find(layer, name + ".bias") != nullptr)
      contribute(layer, name + ".bias", bias_use + " bias", dy.colwise().sum());
    return dy * weight(layer, name + ".weight");
  }

  NormValues norm(int layer, const std::string& name, const RowMatrix& x) const {
    NormValues n = norm_of(x, weight(layer, name + ".weight"), centred() ? &weight(layer, name + ".bias") : nullptr);
    tell(layer, name, n.y);
    return n;
  }
  RowMatrix norm_backward(int layer, const std::string& name, const NormValues& n, const RowMatrix& dy) {
    tell(layer, "d(" + name + ")", dy);
    contribute(layer, name + ".weight", name, (dy.array() * n.unit.array()).matrix().colwise().sum());
    if (centred()) contribute(layer, name + ".bias", name, dy.colwise().sum());
    return norm_gradient(n, weight(layer, name + ".weight"), dy, centred());
  }

  // 0 or 1/(1 − p) per element of [tokens, features]; ones without dropout.
  RowMatrix keep(int layer, const std::string& name, std::int64_t columns) const {
    RowMatrix mask = RowMatrix::Ones(shape_.sequence, columns);
    if (shape_.dropout == 0) return mask;
    for (std::int64_t s = 0; s < shape_.sequence; ++s) {
      for (std::int64_t c = 0; c < columns; ++c) mask(s, c) = kept(layer, name, s, columns, c);
    }
    return mask;
  }
  double kept(int layer, const std::string& name, std::int64_t token, std::int64_t columns, std::int64_t column) const {
    const std::int64_t index = (token * (std::int64_t{1} << 20) + sample_) * columns + column;
    const std::uint64_t key = synthetic_key(name, of_.settings_.module, layer);
    return dropout_keeps(of_.settings_.seed, key, of_.step_, index, shape_.dropout) ? 1 / (1 - shape_.dropout) : 0;
  }

  // --- embedding
  // ------------------------------------------------------------------------------------------------

  RowMatrix embed() {
    const RowMatrix& table = weight(-1, "embedding.weight");
    RowMatrix x(shape_.sequence, shape_.hidden);
    for (std::int64_t s = 0; s < shape_.sequence; ++s) x.row(s) = table.row(tokens_[static_cast<std::size_t>(s)]);
    tell(-1, "embedding", x);
    if (shape_.position == Position::learned) x += weight(-1, "position.weight").topRows(shape_.sequence);
    keep_embedding_ = keep(-1, "embedding dropout", shape_.hidden);
    return x.cwiseProduct(keep_embedding_);
  }

  void embed_backward(const RowMatrix& d_hidden) {
    const RowMatrix dx = d_hidden.cwiseProduct(keep_embedding_);
    if (shape_.position == Position::learned) {
      RowMatrix d_positions = RowMatrix::Zero(shape_.max_positions, shape_.hidden);
      d_positions.topRows(shape_.sequence) = dx;
      contribute(-1, "position.weight", "position", d_positions);
    }
    RowMatrix d_table = RowMatrix::Zero(of_.settings_.vocabulary_rows, shape_.hidden);
    for (std::int64_t s = 0; s < shape_.sequence; ++s) d_table.row(tokens_[static_cast<std::size_t>(s)]) += dx.row(s);
    contribute(-1, "embedding.weight", "embedding", d_table);
  }

  // --- layer
  // ----------------------------------------------------------------------------------------------------

  RowMatrix layer_forward(int layer, const RowMatrix& x) {
    Layer& l = layers_.emplace_back();
    const std::int64_t d = shape_.head_dim;
    l.x = x;
    l.norm1 = norm(layer, "norm1", x);
    const RowMatrix qkv = linear(layer, "qkv", l.norm1.y, shape_.biases != Biases::none);
    l.q = qkv.leftCols(shape_.q_size());
    l.k = qkv.middleCols(shape_.q_size(), shape_.kv_size());
    l.v = qkv.rightCols(shape_.kv_size());
    tell(layer, "q", l.q), tell(layer, "k", l.k), tell(layer, "v", l.v);
    if (shape_.position == Position::rope) {
      l.q = rotated(l.q, d, 1);
      l.k = rotated(l.k, d, 1);
      tell(layer, "q rotated", l.q), tell(layer, "k rotated", l.k);
    }
    l.context = RowMatrix::Zero(shape_.sequence, shape_.q_size());
    for (std::int64_t head = 0; head < shape_.heads; ++head) attend(layer, l, head);
    tell(layer, "context", l.context);
    RowMatrix projected = l.context * weight(layer, "projection.weight").transpose();
    tell(layer, "projection", projected);
    if (shape_.biases == Biases::all) projected.rowwise() += weight(layer, "projection.bias").row(0);
    l.keep_attention = keep(layer, "attention residual", shape_.hidden);
    l.a = x + projected.cwiseProduct(l.keep_attention);
    tell(layer, "attention output", l.a);

    l.norm2 = norm(layer, "norm2", l.a);
    l.fc1 = linear(layer, "fc1", l.norm2.y, shape_.biases == Biases::all);
    tell(layer, "fc1", l.fc1);
    switch (shape_.activation) {
      case Activation::gelu: l.activated = map(l.fc1, gelu); break;
      case Activation::squared_relu: l.activated = l.fc1.cwiseMax(0).cwiseAbs2(); break;
      case Activation::swiglu:
        l.activated = map(l.fc1.leftCols(shape_.ffn), silu).cwiseProduct(l.fc1.rightCols(shape_.ffn));
        break;
    }
    tell(layer, "activation", l.activated);
    RowMatrix narrowed = l.activated * weight(layer, "fc2.weight").transpose();
    tell(layer, "fc2", narrowed);
    if (shape_.biases == Biases::all) narrowed.rowwise() += weight(layer, "fc2.bias").row(0);
    l.keep_mlp = keep(layer, "mlp residual", shape_.hidden);
    return l.a + narrowed.cwiseProduct(l.keep_mlp);
  }

  std::int64_t kv_head(std::int64_t head) const { return head / (shape_.heads / shape_.kv_heads); }

  void attend(int layer, Layer& l, std::int64_t head) {
    const std::int64_t d = shape_.head_dim, s = shape_.sequence, g = kv_head(head);
    RowMatrix p =
        l.q.middleCols(head * d, d) * l.k.middleCols(g * d, d).transpose() / std::sqrt(static_cast<double>(d));
    for (std::int64_t i = 0; i < s; ++i) {
      const std::int64_t seen = shape_.mask == AttentionMask::causal ? i + 1 : s;
      p.row(i).tail(s - seen).setConstant(-std::numeric_limits<double>::infinity());
      p.row(i) = (p.row(i).array() - p.row(i).maxCoeff()).exp();
      p.row(i) /= p.row(i).sum();
    }
    RowMatrix mask = RowMatrix::Ones(s, s);
    if (shape_.dropout > 0) {
      for (std::int64_t i = 0; i < s; ++i) {
        for (std::int64_t j = 0; j < s; ++j) {
          mask(i, j) = kept(layer, "attention dropout", i, shape_.heads * s, head * s + j);
        }
      }
    }
    l.context.middleCols(head * d, d) = p.cwiseProduct(mask) * l.v.middleCols(g * d, d);
    l.probabilities.push_back(std::move(p));
    l.keep_pairs.push_back(std::move(mask));
  }

  RowMatrix layer_backward(int layer, const RowMatrix& dy) {
    const Layer& l = layers_[static_cast<std::size_t>(layer)];
    // MLP
    const RowMatrix d_narrowed = dy.cwiseProduct(l.keep_mlp);
    tell(layer, "d(fc2)", d_narrowed);
    const RowMatrix d_activated = linear_backward(layer, "fc2", l.activated, d_narrowed, "mlp residual");
    tell(layer, "d(activation)", d_activated);
    RowMatrix d_fc1(l.fc1.rows(), l.fc1.cols());
    switch (shape_.activation) {
      case Activation::gelu: d_fc1 = d_activated.cwiseProduct(map(l.fc1, gelu_slope)); break;
      case Activation::squared_relu: d_fc1 = 2 * d_activated.cwiseProduct(l.fc1.cwiseMax(0)); break;
      case Activation::swiglu: {
        const RowMatrix gate = l.fc1.leftCols(shape_.ffn), up = l.fc1.rightCols(shape_.ffn);
        d_fc1 << d_activated.cwiseProduct(up).cwiseProduct(map(gate, silu_slope)),
            d_activated.cwiseProduct(map(gate, silu));
        break;
      }
    }
    tell(layer, "d(fc1)", d_fc1);
    const RowMatrix d_norm2 = linear_backward(layer, "fc1", l.norm2.y, d_fc1, "fc1");
    const RowMatrix da = dy + norm_backward(layer, "norm2", l.norm2, d_norm2);
    tell(layer, "d(attention output)", da);
    // Attention
    const RowMatrix d_projected = da.cwiseProduct(l.keep_attention);
    tell(layer, "d(projection)", d_projected);
    const RowMatrix d_context = linear_backward(layer, "projection", l.context, d_projected, "attention residual");
    tell(layer, "d(context)", d_context);
    RowMatrix dq = RowMatrix::Zero(l.q.rows(), l.q.cols());
    RowMatrix dk = RowMatrix::Zero(l.k.rows(), l.k.cols());
    RowMatrix dv = RowMatrix::Zero(l.v.rows(), l.v.cols());
    const std::int64_t d = shape_.head_dim;
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      const std::int64_t g = kv_head(head);
      const RowMatrix& p = l.probabilities[static_cast<std::size_t>(head)];
      const RowMatrix& mask = l.keep_pairs[static_cast<std::size_t>(head)];
      const RowMatrix d_out = d_context.middleCols(head * d, d);
      dv.middleCols(g * d, d) += p.cwiseProduct(mask).transpose() * d_out;
      const RowMatrix dp = (d_out * l.v.middleCols(g * d, d).transpose()).cwiseProduct(mask);
      const Eigen::VectorXd mean = (dp.array() * p.array()).rowwise().sum();
      const RowMatrix ds = p.array() * (dp.array().colwise() - mean.array()) / std::sqrt(static_cast<double>(d));
      dq.middleCols(head * d, d) += ds * l.k.middleCols(g * d, d);
      dk.middleCols(g * d, d) += ds.transpose() * l.q.middleCols(head * d, d);
    }
    if (shape_.position == Position::rope) {
      tell(layer, "d(q rotated)", dq), tell(layer, "d(k rotated)", dk);
      dq = rotated(dq, d, -1);
      dk = rotated(dk, d, -1);
    }
    tell(layer, "d(q)", dq), tell(layer, "d(k)", dk), tell(layer, "d(v)", dv);
    RowMatrix d_qkv(shape_.sequence, shape_.qkv_size());
    d_qkv << dq, dk, dv;
    const RowMatrix d_norm1 = linear_backward(layer, "qkv", l.norm1.y, d_qkv, "qkv");
    return da + norm_backward(layer, "norm1", l.norm1, d_norm1);
  }

  // --- head
  // -----------------------------------------------------------------------------------------------------

  std::string table_name() const { return shape_.tied_embeddings ? "embedding.weight" : "output.weight"; }

  double head_forward(const RowMatrix& x) {
    final_ = norm(-1, "final norm", x);
    const RowMatrix logits = final_.y * weight(-1, table_name()).transpose();
    tell(-1, "logits", logits);
    double loss = 0;
    softmax_.resize(logits.rows(), logits.cols());
    for (std::int64_t s = 0; s < shape_.sequence; ++s) {
      const double largest = logits.row(s).maxCoeff();
      const Row e = (logits.row(s).array() - largest).exp();
      loss += std::log(e.sum()) + largest - logits(s, label(s));
      softmax_.row(s) = e / e.sum();
    }
    return loss;
  }

  std::int64_t label(std::int64_t position) const { return tokens_[static_cast<std::size_t>(position) + 1]; }

  RowMatrix head_backward(double scale) {
    RowMatrix d_logits = softmax_;
    for (std::int64_t s = 0; s < shape_.sequence; ++s) d_logits(s, label(s)) -= 1;
    d_logits *= scale;
    tell(-1, "d(logits)", d_logits);
    contribute(-1, table_name(), "logits", d_logits.transpose() * final_.y);
    return norm_backward(-1, "final norm", final_, d_logits * weight(-1, table_name()));
  }

  Reference& of_;
  const TransformerShape& shape_;
  std::int64_t sample_;
  const ReferenceRecorder& record_;
  std::vector<std::int64_t> tokens_;  // one more than the sequence: the last label
  std::vector<Layer> layers_;
  RowMatrix keep_embedding_, softmax_;
  NormValues final_;
};

Reference::Reference(const ReferenceSettings& settings) : settings_(settings) {
  const TransformerShape& s = settings_.shape;
  const auto linear = [&](int layer, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias) {
    add(layer, name + ".weight", outputs, inputs);
    if (bias) add(layer, name + ".bias", outputs, 0);
  };
  const auto norm = [&](int layer, const std::string& name) {
    add(layer, name + ".weight", s.hidden, 0);
    if (s.norm == Norm::layer_norm) add(layer, name + ".bias", s.hidden, 0);
  };
  add(-1, "embedding.weight", settings_.vocabulary_rows, s.hidden);
  if (s.position == Position::learned) add(-1, "position.weight", s.max_positions, s.hidden);
  for (int layer = 0; layer < s.layers; ++layer) {
    norm(layer, "norm1");
    linear(layer, "qkv", s.qkv_size(), s.hidden, s.biases != Biases::none);
    linear(layer, "projection", s.hidden, s.q_size(), s.biases == Biases::all);
    norm(layer, "norm2");
    linear(layer, "fc1", s.fc1_size(), s.hidden, s.biases == Biases::all);
    linear(layer, "fc2", s.hidden, s.ffn, s.biases == Biases::all);
  }
  norm(-1, "final norm");
  if (!s.tied_embeddings) add(-1, "output.weight", settings_.vocabulary_rows, s.hidden);
  for (const auto& [key, value] : parameters_) {
    first_moments_[key] = second_moments_[key] = gradients_[key] = RowMatrix::Zero(value.rows(), value.cols());
  }
}

// A matrix, or with no columns a vector of `rows` elements.
void Reference::add(int layer, const std::string& name, std::int64_t rows, std::int64_t columns) {
  RowMatrix value(columns > 0 ? rows : 1, columns > 0 ? columns : rows);
  const std::uint64_t key = synthetic_key(name, settings_.module, layer);
  for (std::int64_t i = 0; i < value.size(); ++i) {
    value.data()[i] = initial_value(settings_.seed, key, i, columns, name.ends_with(".bias"));
  }
  parameters_[{layer, name}] = std::move(value);
}

double Reference::run_samples(bool backward, const ReferenceRecorder& record) {
  const double scale = 1 / (static_cast<double>(settings_.samples) * static_cast<double>(settings_.shape.sequence));
  double loss = 0;
  for (std::int64_t i = 0; i < settings_.samples; ++i) {
    Sample sample(*this, i, record);
    loss += sample.forward() * scale;
    if (backward) sample.backward(scale);
  }
  return loss;
}

double Reference::loss() { return run_samples(false, {}); }

double Reference::step(const ReferenceRecorder& record) {
  for (auto& [key, gradient] : gradients_) gradient.setZero();
  const double loss = run_samples(settings_.train, record);
  if (settings_.train) update();
  ++step_;
  return loss;
}

void Reference::update() {
  double squares = 0;
  for (const auto& [key, gradient] : gradients_) squares += gradient.squaredNorm();
  norm_ = std::sqrt(squares);
  const AdamSettings& a = settings_.adam;
  for (auto& [key, gradient] : gradients_) {
    if (settings_.clip > 0 && norm_ > settings_.clip) gradient *= settings_.clip / norm_;
    RowMatrix& m = first_moments_[key];
    RowMatrix& v = second_moments_[key];
    m = a.beta1 * m + (1 - a.beta1) * gradient;
    v = a.beta2 * v + (1 - a.beta2) * gradient.cwiseAbs2();
    const RowMatrix corrected = m / (1 - std::pow(a.beta1, step_ + 1));
    const RowMatrix root = (v / (1 - std::pow(a.beta2, step_ + 1))).cwiseSqrt();
    parameters_[key] -= a.learning_rate * RowMatrix(corrected.array() / (root.array() + a.epsilon));
  }
}

RowMatrix Reference::adam_divisor(const ParameterKey& key) const {
  const RowMatrix v = second_moments_.at(key) / (1 - std::pow(settings_.adam.beta2, step_));
  return v.cwiseSqrt().array() + settings_.adam.epsilon;
}

}  // namespace meshweave
