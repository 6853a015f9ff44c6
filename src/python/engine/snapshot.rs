//! `Engine.snapshot()`: the tree as plain Python data, under the kernel's names.

use crate::tree::{CpuSnapshot, NodeSnapshot, Snapshot, SrsSnapshot};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// `gp_state` in the kernel's words.
const STATES: [&str; 9] = [
    "RCU_GP_IDLE",
    "RCU_GP_WAIT_GPS",
    "RCU_GP_DONE_GPS",
    "RCU_GP_ONOFF",
    "RCU_GP_INIT",
    "RCU_GP_WAIT_FQS",
    "RCU_GP_DOING_FQS",
    "RCU_GP_CLEANUP",
    "RCU_GP_CLEANED",
];

/// Grace-period numbers are printed signed, as the kernel prints them.
const fn signed(gp_seq: u64) -> i64 {
    gp_seq as i64
}

pub(super) fn to_dict<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    // Taken apart whole, so that what is added there is not forgotten here.
    let Snapshot {
        gp_seq,
        gp_flags,
        gp_state,
        nodes,
        cpus,
        srs,
        gp_seq_polled,
        expedited_sequence,
    } = snapshot;
    let dict = PyDict::new(py);
    dict.set_item("gp_seq", signed(*gp_seq))?;
    dict.set_item("gp_flags", gp_flags)?;
    dict.set_item("gp_state", STATES.get(*gp_state as usize).unwrap_or(&"unknown"))?;
    dict.set_item("gp_seq_polled", signed(*gp_seq_polled))?;
    dict.set_item("expedited_sequence", expedited_sequence)?;
    let nodes: Vec<_> = nodes.iter().map(|n| node(py, n)).collect::<PyResult<_>>()?;
    dict.set_item("rcu_node", PyList::new(py, nodes)?)?;
    let cpus: Vec<_> = cpus
        .iter()
        .enumerate()
        .map(|(number, c)| cpu(py, number, c))
        .collect::<PyResult<_>>()?;
    dict.set_item("rcu_data", PyList::new(py, cpus)?)?;
    dict.set_item("srs", direct(py, srs)?)?;
    Ok(dict)
}

fn node<'py>(py: Python<'py>, node: &NodeSnapshot) -> PyResult<Bound<'py, PyDict>> {
    let NodeSnapshot {
        level,
        grplo,
        grphi,
        parent,
        grpmask,
        gp_seq,
        gp_seq_needed,
        completedqs,
        qsmask,
        qsmaskinit,
        qsmaskinitnext,
        gp_blockers,
        wait_blkd_tasks,
        expmask,
        expmaskinit,
        exp_blockers,
    } = node;
    let dict = PyDict::new(py);
    dict.set_item("level", level)?;
    dict.set_item("grplo", grplo)?;
    dict.set_item("grphi", grphi)?;
    dict.set_item("parent", parent)?;
    dict.set_item("grpmask", grpmask)?;
    dict.set_item("gp_seq", signed(*gp_seq))?;
    dict.set_item("gp_seq_needed", signed(*gp_seq_needed))?;
    dict.set_item("completedqs", signed(*completedqs))?;
    dict.set_item("qsmask", qsmask)?;
    dict.set_item("qsmaskinit", qsmaskinit)?;
    dict.set_item("qsmaskinitnext", qsmaskinitnext)?;
    dict.set_item("expmask", expmask)?;
    dict.set_item("expmaskinit", expmaskinit)?;
    dict.set_item("gp_tasks", gp_blockers)?;
    dict.set_item("exp_tasks", exp_blockers)?;
    dict.set_item("wait_blkd_tasks", wait_blkd_tasks)?;
    Ok(dict)
}

fn cpu<'py>(py: Python<'py>, number: usize, cpu: &CpuSnapshot) -> PyResult<Bound<'py, PyDict>> {
    let CpuSnapshot {
        gp_seq,
        gp_seq_needed,
        norm,
        core_needs_qs,
        gpwrap,
        cblist_len,
        seglen,
        seg_gp_seq,
        in_batch,
        exp_owed,
    } = cpu;
    let no_qs = PyDict::new(py);
    no_qs.set_item("norm", norm)?;
    no_qs.set_item("exp", exp_owed)?;
    let cblist = PyDict::new(py);
    cblist.set_item("len", cblist_len)?;
    cblist.set_item("seglen", seglen.to_vec())?;
    cblist.set_item("gp_seq", seg_gp_seq.map(signed).to_vec())?;
    cblist.set_item("in_batch", in_batch)?;
    let dict = PyDict::new(py);
    dict.set_item("cpu", number)?;
    dict.set_item("gp_seq", signed(*gp_seq))?;
    dict.set_item("gp_seq_needed", signed(*gp_seq_needed))?;
    dict.set_item("cpu_no_qs", no_qs)?;
    dict.set_item("core_needs_qs", core_needs_qs)?;
    dict.set_item("gpwrap", gpwrap)?;
    dict.set_item("cblist", cblist)?;
    Ok(dict)
}

fn direct<'py>(py: Python<'py>, srs: &SrsSnapshot) -> PyResult<Bound<'py, PyDict>> {
    let SrsSnapshot {
        heads_in_use,
        wait_tail,
        done_tail,
        cleanups_pending,
        count,
        latched,
    } = srs;
    let dict = PyDict::new(py);
    dict.set_item("heads_in_use", heads_in_use)?;
    dict.set_item("srs_wait_tail", wait_tail)?;
    dict.set_item("srs_done_tail", done_tail)?;
    dict.set_item("srs_cleanups_pending", cleanups_pending)?;
    dict.set_item("rcu_sr_normal_count", count)?;
    dict.set_item("rcu_sr_normal_latched", latched)?;
    Ok(dict)
}
