//! Converts the parts of a message: directly if that is little work, else on the workers, so that
//! no network thread is blocked and clients are served in turn.

use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::limits::VERTICES_CONVERTED_AT_ONCE;
use crate::shares::Requester;

impl ServiceContext {
    /// Applies `convert` to each part and its index, and returns the results in order. `work`
    /// returns the cost of a part in vertices.
    ///
    /// # Errors
    /// [`ServiceError::ShuttingDown`].
    pub(super) async fn convert<S: Send + 'static, T: Send + 'static>(
        &self,
        client: Requester,
        sent: Vec<S>,
        work: impl Fn(&S) -> usize,
        convert: impl Fn(usize, S) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, ServiceError> {
        let all_work: usize = sent.iter().map(&work).sum();
        let numbered = sent.into_iter().enumerate();
        if all_work <= VERTICES_CONVERTED_AT_ONCE {
            return Ok(numbered.map(|(number, sent)| convert(number, sent)).collect());
        }
        let (mut converted, mut part, mut part_work) = (Vec::new(), Vec::new(), 0);
        let mut rest = numbered.peekable();
        while let Some((number, sent)) = rest.next() {
            part_work += work(&sent);
            part.push((number, sent));
            if part_work >= VERTICES_CONVERTED_AT_ONCE || rest.peek().is_none() {
                let (part, convert) = (std::mem::take(&mut part), convert.clone());
                part_work = 0;
                let each = move |(number, sent)| convert(number, sent);
                let done = move || part.into_iter().map(each).collect::<Vec<_>>();
                converted.extend(self.workers.run(client, done).await?);
            }
        }
        Ok(converted)
    }
}
