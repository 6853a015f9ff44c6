//! stub
use super::plan::Plan;
use super::report::Report;
use crate::error::Result;
use crate::sim::Control;
pub fn torture(_plan: Plan, _control: &Control) -> Result<Report> {
    Err(crate::error::Error::Engine("".into()))
}
