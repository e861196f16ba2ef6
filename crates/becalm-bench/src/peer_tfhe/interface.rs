//! The peer's public interface: gates of its boolean module, lookups of its shortint module.

use crate::cases::{lookup, messages};
use crate::rows::{Side, Timed};
use anyhow::{Context, Result, ensure};
use becalm::params::{Noise, TfheParams};
use tfhe::boolean::parameters as boolean;
use tfhe::boolean::prelude::{BinaryBooleanGates, BooleanParameters};
use tfhe::core_crypto::prelude::*;
use tfhe::shortint::parameters::{
    CarryModulus, CiphertextModulus32, KeySwitch32PBSParameters, MaxNoiseLevel, MessageModulus,
    ModulusSwitchType,
};

/// The peer's gates: its boolean module, ciphertexts of 32-bit words.
struct Gate {
    client: tfhe::boolean::client_key::ClientKey,
    server: tfhe::boolean::server_key::ServerKey,
    inputs: [tfhe::boolean::ciphertext::Ciphertext; 2],
    out: Option<tfhe::boolean::ciphertext::Ciphertext>,
    /// Counts runs; its two lowest bits are the inputs.
    runs: usize,
}

impl Gate {
    fn new(params: &BooleanParameters) -> Gate {
        let client = tfhe::boolean::client_key::ClientKey::new(params);
        let server = tfhe::boolean::server_key::ServerKey::new(&client);
        let inputs = [client.encrypt(false), client.encrypt(true)];
        Gate { client, server, inputs, out: None, runs: 0 }
    }
}

impl Timed for Gate {
    fn run(&mut self) {
        self.runs += 1;
        let [a, b] = [self.runs & 1, self.runs >> 1 & 1].map(|bit| &self.inputs[bit]);
        self.out = Some(self.server.nand(a, b));
    }

    fn check(&self) -> Result<()> {
        let out = self.out.as_ref().context("nothing was run")?;
        let wanted = self.runs & 3 != 3;
        ensure!(
            self.client.decrypt(out) == wanted,
            "tfhe: nand of {:02b} is not {wanted}",
            self.runs & 3
        );
        Ok(())
    }

    fn units(&self) -> usize {
        1
    }
}

/// The peer's boolean sets by failure probability; of each pair the order of steps that is faster.
const BOOLEAN: &[(&str, BooleanParameters, f64)] = &[
    ("DEFAULT_PARAMETERS_KS_PBS", boolean::DEFAULT_PARAMETERS_KS_PBS, -64.017),
    (
        "PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS",
        boolean::PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS,
        -166.826,
    ),
];

/// The peer's gate at the set whose failure probability is nearest to that of `params`.
pub(super) fn nand(params: &TfheParams) -> Result<Side> {
    let distance = |set: &(&str, _, f64)| (set.2 - params.log2_pfail).abs();
    let set = BOOLEAN.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let &(name, ref set, log2_pfail) = set.context("no boolean set")?;
    Ok(Side { timed: Box::new(Gate::new(set)), params: name.into(), log2_pfail })
}

/// The peer's lookup with a key switch to 32-bit words.
struct Lookup {
    client: tfhe::shortint::ClientKey,
    server: tfhe::shortint::ServerKey,
    table: tfhe::shortint::server_key::LookupTableOwned,
    inputs: Vec<(u64, tfhe::shortint::Ciphertext)>,
    out: Option<tfhe::shortint::Ciphertext>,
    runs: usize,
}

impl Timed for Lookup {
    fn run(&mut self) {
        self.runs += 1;
        let (_, input) = &self.inputs[self.runs % self.inputs.len()];
        self.out = Some(self.server.apply_lookup_table(input, &self.table));
    }

    fn check(&self) -> Result<()> {
        let out = self.out.as_ref().context("nothing was run")?;
        let (m, _) = self.inputs[self.runs % self.inputs.len()];
        let wanted = lookup(m, out.message_modulus.0 * out.carry_modulus.0);
        let got = self.client.decrypt_message_and_carry(out);
        ensure!(got == wanted, "tfhe: wanted {wanted}, got {got}");
        Ok(())
    }

    fn units(&self) -> usize {
        1
    }
}

/// The peer's lookup at the numbers of `params`, which must switch keys to 32-bit words with TUniform noise.
pub(super) fn lookup_one(params: &TfheParams) -> Result<Side> {
    let (Noise::TUniform { bound_log2: small }, Noise::TUniform { bound_log2: big }, 32) =
        (params.lwe_noise, params.glwe_noise, params.ks_modulus_log2)
    else {
        anyhow::bail!(
            "{}: lookups are compared at 32-bit key switches and TUniform noise",
            params.name
        )
    };
    let set = KeySwitch32PBSParameters {
        lwe_dimension: LweDimension(params.lwe_dimension),
        glwe_dimension: GlweDimension(params.glwe_dimension),
        polynomial_size: PolynomialSize(params.polynomial_size),
        lwe_noise_distribution: DynamicDistribution::new_t_uniform(small),
        glwe_noise_distribution: DynamicDistribution::new_t_uniform(big),
        pbs_base_log: DecompositionBaseLog(params.pbs.base_log as usize),
        pbs_level: DecompositionLevelCount(params.pbs.level as usize),
        ks_base_log: DecompositionBaseLog(params.ks.base_log as usize),
        ks_level: DecompositionLevelCount(params.ks.level as usize),
        message_modulus: MessageModulus(params.message_modulus),
        carry_modulus: CarryModulus(params.carry_modulus),
        max_noise_level: MaxNoiseLevel::new(params.max_norm2 as u64),
        log2_p_fail: params.log2_pfail,
        post_keyswitch_ciphertext_modulus: CiphertextModulus32::new_native(),
        ciphertext_modulus: CiphertextModulus::new_native(),
        modulus_switch_noise_reduction_params: ModulusSwitchType::CenteredMeanNoiseReduction,
    };
    let client = tfhe::shortint::ClientKey::new(set);
    let server = tfhe::shortint::ServerKey::new(&client);
    let p = params.plaintext_modulus();
    let table = server.generate_lookup_table(|x| lookup(x, p));
    let inputs = messages(4, params).iter().map(|&m| (m, client.unchecked_encrypt(m))).collect();
    let timed = Box::new(Lookup { client, server, table, inputs, out: None, runs: 0 });
    Ok(Side { timed, params: params.name.to_string(), log2_pfail: params.log2_pfail })
}
